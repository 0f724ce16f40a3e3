// How a feed is polled, as its configuration says it, with the defaults filled in. Pure; safe from
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::poll {

inline constexpr absl::Duration kConnectTimeout = absl::Seconds(15);
inline constexpr absl::Duration kSilenceTimeoutDefault = absl::Seconds(30);

enum class NullCursors { kFail, kInclude, kExclude };

struct TombstoneSettings {
  std::string schema;
  std::string table;
  std::string cursor;
  // In the order of the table's key as it is configured; empty: the columns of the same names.
  std::vector<std::string> key;
};

struct TableSettings {
  std::string schema;
  std::string table;
  std::string cursor;
  // Empty: the primary key.
  std::vector<std::string> key;
  NullCursors null_cursors = NullCursors::kFail;
  // Empty: rows are not marked as deleted.
  std::string deleted;
  std::optional<TombstoneSettings> tombstones;
  uint64_t overlap_values = 10'000;

  // schema.table, as people write it.
  std::string Text() const;
};

struct PollSettings {
  std::vector<TableSettings> tables;
  absl::Duration interval = absl::Seconds(5);
  uint32_t page_rows = 1000;
  absl::Duration overlap = absl::Seconds(60);
  absl::Duration delay = absl::Seconds(1);
  absl::Duration future_tolerance = absl::Minutes(1);
  uint64_t unindexed_rows_max = 100'000;
  absl::Duration silence_timeout = kSilenceTimeoutDefault;
  // Whether all rows are compared by themselves, and how often.
  bool scans = false;
  std::optional<absl::Duration> scan_period;
  uint32_t scan_rows_per_second = 10'000;
};

// CONFIG_INVALID when a table cannot be read.
absl::StatusOr<PollSettings> SettingsOf(const v1::FeedConfig& config);

}  // namespace tidemark::capture::poll
