#include "server/retention_loop.h"

#include "proto/reason.h"
#include "server/limits.h"

namespace tidemark {

absl::Status TrimFeed(const Feed& feed, const StreamRegistry& streams, absl::Time now) {
  // Nothing to trim yet, and rows of an unfinished snapshot are not ours to touch.
  if (!feed.store().snapshot_whole()) return absl::OkStatus();
  return feed.store().Trim(feed.retention(), now, streams.KeepFrom(feed.name()));
}

RetentionLoop::RetentionLoop(const FeedDirectory& feeds, const StreamRegistry& streams,
                             EventLog& log)
    : task_(absl::Milliseconds(limits::retention_period_ms), [&feeds, &streams, &log] {
        for (const auto& feed : feeds.feeds()) {
          const absl::Status trimmed = TrimFeed(*feed, streams, absl::Now());
          if (trimmed.ok()) continue;
          log.Error("trimming the log failed", {{"feed", feed->name()},
                                                {"reason", ReasonOf(trimmed)},
                                                {"message", std::string(trimmed.message())}});
        }
      }) {}

}  // namespace tidemark
