// Trims the log of every feed, as its bounds in age and bytes ask for.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "server/event_log.h"
#include "server/feed.h"
#include "server/periodic_task.h"
#include "server/stream_registry.h"

namespace tidemark {

// Trims one feed once; never past what an open bootstrap still needs from the log.
absl::Status TrimFeed(const Feed& feed, const StreamRegistry& streams, absl::Time now);

// Thread rule: made and destroyed by one thread; works on its own. Everything given is lent.
class RetentionLoop {
 public:
  RetentionLoop(const FeedDirectory& feeds, const StreamRegistry& streams, EventLog& log);

 private:
  PeriodicTask task_;
};

}  // namespace tidemark
