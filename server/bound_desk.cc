#include "server/bound_desk.h"

#include <algorithm>
#include <utility>

#include "server/limits.h"

namespace tidemark {

// Guarded by the desk's mutex.
class BoundDesk::Ticket {
 public:
  std::optional<Position> prove;
  // Of a question for the end.
  std::optional<absl::Time> after;
  std::optional<Position> end;
  std::function<void()> answered;
  // When the source is to be asked, by this server's clock.
  absl::Time due = absl::InfinitePast();

  bool asks() const { return after && !end; }
};

std::shared_ptr<BoundDesk::Ticket> BoundDesk::AskForEnd(absl::Time after,
                                                        std::function<void()> answered) {
  auto ticket = std::make_shared<Ticket>();
  ticket->after = after;
  ticket->answered = std::move(answered);
  {
    const std::lock_guard lock(mutex_);
    if (finished_ && after == absl::InfinitePast()) {
      ticket->end = finished_;
      return ticket;
    }
    tickets_.push_back(ticket);
  }
  wake_();
  return ticket;
}

std::shared_ptr<BoundDesk::Ticket> BoundDesk::Prove(const Position& upto) {
  auto ticket = std::make_shared<Ticket>();
  ticket->prove = upto;
  {
    const std::lock_guard lock(mutex_);
    tickets_.push_back(ticket);
  }
  wake_();
  return ticket;
}

std::optional<Position> BoundDesk::EndOf(const Ticket& ticket) const {
  const std::lock_guard lock(mutex_);
  return ticket.end;
}

template <typename Do>
void BoundDesk::ForEachOpen(const Do& visit) {
  const auto gone = std::remove_if(tickets_.begin(), tickets_.end(), [&](const auto& weak) {
    const std::shared_ptr<Ticket> ticket = weak.lock();
    if (ticket == nullptr || ticket->end) return true;
    visit(*ticket);
    return ticket->end.has_value();
  });
  tickets_.erase(gone, tickets_.end());
}

BoundDesk::Errands BoundDesk::Look(absl::Time now, const Position& proved) {
  Errands errands;
  const std::lock_guard lock(mutex_);
  ForEachOpen([&](const Ticket& ticket) {
    if (ticket.prove && *ticket.prove > proved) {
      errands.prove = std::min(errands.prove.value_or(*ticket.prove), *ticket.prove);
    }
    if (!ticket.asks()) return;
    if (ticket.due <= now) {
      errands.sample = true;
    } else {
      errands.again = std::min(errands.again, ticket.due);
    }
  });
  return errands;
}

void BoundDesk::Sampled(const std::optional<capture::LogEnd>& end, absl::Time now) {
  constexpr absl::Duration kAgain = absl::Milliseconds(limits::end_sample_retry_ms);
  constexpr absl::Duration kShortest = absl::Milliseconds(limits::end_sample_wait_min_ms);
  constexpr absl::Duration kLongest = absl::Milliseconds(limits::end_sample_wait_max_ms);
  std::vector<std::function<void()>> answered;
  {
    const std::lock_guard lock(mutex_);
    ForEachOpen([&](Ticket& ticket) {
      if (!ticket.asks() || ticket.due > now) return;
      if (!end) {
        ticket.due = now + kAgain;
      } else if (end->clock <= *ticket.after) {
        // By the source's clock, which may run apart from ours meanwhile.
        ticket.due = now + std::clamp(*ticket.after - end->clock, kShortest, kLongest);
      } else {
        ticket.end = end->position;
        answered.push_back(std::move(ticket.answered));
      }
    });
  }
  for (const auto& call : answered) call();
}

void BoundDesk::Finish(const Position& end) {
  std::vector<std::function<void()>> answered;
  {
    const std::lock_guard lock(mutex_);
    finished_ = end;
    ForEachOpen([&](Ticket& ticket) {
      if (!ticket.asks() || *ticket.after != absl::InfinitePast()) return;
      ticket.end = end;
      answered.push_back(std::move(ticket.answered));
    });
  }
  for (const auto& call : answered) call();
}

void BoundDesk::Reopen() {
  const std::lock_guard lock(mutex_);
  finished_.reset();
}

}  // namespace tidemark
