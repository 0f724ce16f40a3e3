// Where the readers of a bounded stretch meet capture, which alone may ask the source: where its
// log ends now, and how far everything is proved.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "capture/source.h"
#include "proto/position.h"

namespace tidemark {

// Thread rule: Ask, Prove and EndOf are safe from any thread and never wait; the rest belongs to
// the thread of the ingest loop. Nothing is kept for a reader that is gone.
class BoundDesk {
 public:
  // What one reader asked for; it counts as long as the reader holds it.
  class Ticket;

  // `wake` brings the ingest loop to the desk.
  explicit BoundDesk(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Asks for the end of the source's log, once the source's clock has passed `after`
  // (InfinitePast: now). `answered` is called once, by capture's thread, and must return at once.
  std::shared_ptr<Ticket> AskForEnd(absl::Time after, std::function<void()> answered);
  // What came of it.
  std::optional<Position> EndOf(const Ticket& ticket) const;
  // Asks capture to prove everything up to `upto`, instead of waiting until the source says by
  // itself how far it is.
  std::shared_ptr<Ticket> Prove(const Position& upto);

  // What capture is to do.
  struct Errands {
    // Ask the source where its log ends.
    bool sample = false;
    // The first place that somebody waits for and that is not proved yet.
    std::optional<Position> prove;
    // When to come again, if nobody wakes.
    absl::Time again = absl::InfiniteFuture();
  };
  Errands Look(absl::Time now, const Position& proved);
  // The answer to `sample`; `end` is absent where the source cannot be asked at present.
  void Sampled(const std::optional<capture::LogEnd>& end, absl::Time now);
  // Nothing will come behind this any more: that is the end for all who ask, now and later, until
  // Reopen.
  void Finish(const Position& end);
  void Reopen();

 private:
  template <typename Do>
  void ForEachOpen(const Do& visit);

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Ticket>> tickets_;
  std::optional<Position> finished_;
};

}  // namespace tidemark
