// Brings the ingest loop back from a Read that waits, when something else is to be done first.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "absl/time/time.h"

namespace tidemark {

// Thread rule: Wake from any thread; the rest belongs to the thread of the ingest loop. A wake that
// comes before a Read begins is not lost: the Read does not begin.
class ReadWake {
 public:
  // `interrupt` makes a Read that waits return soon, and is called during one only.
  explicit ReadWake(std::function<void()> interrupt) : interrupt_(std::move(interrupt)) {}

  void Wake();

  // Forgets the wakes so far: what they were for is looked at now.
  void Answer();
  // False when somebody woke since Answer: the Read must not begin.
  bool BeginRead();
  void EndRead();
  // Waits without reading; true when somebody woke since Answer.
  bool WaitUntil(absl::Time deadline);

 private:
  const std::function<void()> interrupt_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool reading_ = false;
};

}  // namespace tidemark
