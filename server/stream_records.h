// The records of a stream that carry no data: what it is, how far it is, why it ends. Safe from any
// thread; read the store's facts from memory, but for one commit record.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/position.h"
#include "server/feed.h"
#include "server/stream_registry.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

// What a stream promises when it opens.
struct StreamPromise {
  Position start;
  bool rows_follow = false;
  bool rows_before_log = false;
  size_t message_bytes_max = 0;
  absl::Duration progress_period;
  std::string server_version;
};

v1::SubscribeResponse OpenedRecord(const Feed& feed, const StreamPromise& promise);

v1::SubscribeResponse SchemaChangeRecord(const store::SchemaTransition& step,
                                         v1::TableSchema after);

// `resumes`: false in a bootstrap, where no boundary does.
v1::Gap DescribeGap(const Feed& feed, const store::Gap& gap, bool resumes);
v1::SubscribeResponse GapNotice(const Feed& feed, const store::Gap& gap, bool resumes);

// The end of the rows of a bootstrap at `boundary`.
v1::SubscribeResponse RowsEndRecord(const Feed& feed, const Position& boundary);

// `boundary`: nullopt during a bootstrap.
v1::SubscribeResponse ProgressRecord(const Feed& feed, const std::optional<Position>& boundary,
                                     bool caught_up, absl::Time now);

v1::SubscribeResponse ClosingRecord(const Feed& feed, const std::optional<Position>& boundary,
                                    const ClosingOrder& order);

}  // namespace tidemark
