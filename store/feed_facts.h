// What a store says of each feed outside its log, for inspection: read at once, nothing opened for
// writing, nothing refused that can be shown. Safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/database.h"
#include "store/gap.h"
#include "store/key_format.h"
#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::store {

struct SchemaStep {
  Position position;
  uint64_t sequence = 0;
  uint64_t schema_id = 0;
};

struct FeedFacts {
  FeedId id = 0;
  std::string name;
  v1::FeedRecord record;
  // What is not there is not set; what is there and makes no sense is in `defects`.
  std::optional<v1::Checkpoint> checkpoint;
  std::optional<Position> checkpoint_position;
  std::optional<Position> floor;
  int64_t floor_commit_time_us = 0;
  std::optional<Position> snapshot;
  std::optional<RowsMarker> rows;
  // Position of the newest transaction in the log.
  std::optional<Position> last_transaction;
  std::map<uint64_t, v1::TableSchema> schemas;
  // In order of table, then of position.
  std::vector<SchemaStep> history;
  // Large transactions that the log refers to, by spool id.
  std::map<uint64_t, Position> spooled;
  // By generation.
  std::vector<Gap> gaps;
  std::vector<std::string> defects;

  // The newest transaction or checkpoint; nullopt in an empty feed.
  std::optional<Position> head() const;
};

// Of all feeds, or of the named one; NotFound when there is none of that name.
absl::StatusOr<std::vector<FeedFacts>> ReadFeedFacts(const Database& database,
                                                     const std::optional<std::string>& only);

}  // namespace tidemark::store
