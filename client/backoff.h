// How long to wait before the next attempt. A pure policy: time and chance are arguments.
// Thread rule: one thread at a time.
#pragma once

#include "absl/time/time.h"

namespace tidemark::client {

struct BackoffOptions {
  // The wait doubles from the first to the longest.
  absl::Duration first_wait = absl::Milliseconds(100);
  absl::Duration longest_wait = absl::Seconds(15);
  // A stream that lived this long was a success: the next failure begins with the first wait again.
  absl::Duration stable_after = absl::Seconds(10);
};

class Backoff {
 public:
  explicit Backoff(BackoffOptions options = {}) : options_(options) {}

  // An attempt begins.
  void Started(absl::Time now) { started_ = now; }
  // The attempt delivered something new, so the other side works.
  void Succeeded() { failures_ = 0; }
  // The attempt failed. Returns the wait: between half and all of the doubled wait, chosen by
  // `random` in [0, 1), so that clients which lost one server do not come back in step. Never less
  // than `retry_after`, which the server asked for, and which is stretched by up to a quarter for
  // the same reason.
  absl::Duration Failed(absl::Time now, absl::Duration retry_after, double random);

 private:
  const BackoffOptions options_;
  absl::Time started_ = absl::InfiniteFuture();
  int failures_ = 0;
};

}  // namespace tidemark::client
