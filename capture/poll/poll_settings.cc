#include "capture/poll/poll_settings.h"

#include <utility>

#include "proto/reason.h"
#include "proto/table_name.h"
#include "proto/timestamps.h"

namespace tidemark::capture::poll {
namespace {

absl::Status Invalid(const v1::FeedConfig& config, const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kConfigInvalid,
                         "feed " + config.name() + ": " + message);
}

absl::StatusOr<TablePattern> NameOf(const v1::FeedConfig& config, const std::string& text) {
  absl::StatusOr<TablePattern> name = TablePattern::Parse(text);
  if (!name.ok()) return Invalid(config, text + ": " + std::string(name.status().message()));
  if (!name->exact()) return Invalid(config, text + ": a polled table is named exactly");
  return name;
}

absl::StatusOr<NullCursors> NullCursorsOf(const v1::FeedConfig& config, const std::string& word) {
  if (word.empty() || word == "fail") return NullCursors::kFail;
  if (word == "include") return NullCursors::kInclude;
  if (word == "exclude") return NullCursors::kExclude;
  return Invalid(config, "null_cursor is fail, include or exclude, and not " + word);
}

absl::StatusOr<TableSettings> TableOf(const v1::FeedConfig& config, const v1::PolledTable& polled) {
  absl::StatusOr<TablePattern> name = NameOf(config, polled.table());
  if (!name.ok()) return name.status();
  absl::StatusOr<NullCursors> nulls = NullCursorsOf(config, polled.null_cursor());
  if (!nulls.ok()) return nulls.status();
  TableSettings table{.schema = name->schema(),
                      .table = name->table(),
                      .cursor = polled.cursor(),
                      .key = {polled.key().begin(), polled.key().end()},
                      .null_cursors = *nulls,
                      .deleted = polled.deleted()};
  if (polled.has_overlap_values()) table.overlap_values = polled.overlap_values();
  if (table.cursor.empty()) return Invalid(config, polled.table() + " has no cursor column");
  if (!polled.has_tombstones()) return table;
  absl::StatusOr<TablePattern> tombstones = NameOf(config, polled.tombstones().table());
  if (!tombstones.ok()) return tombstones.status();
  table.tombstones = {.schema = tombstones->schema(),
                      .table = tombstones->table(),
                      .cursor = polled.tombstones().cursor(),
                      .key = {polled.tombstones().key().begin(), polled.tombstones().key().end()}};
  return table;
}

}  // namespace

std::string TableSettings::Text() const { return TableNameText(schema, table); }

absl::StatusOr<PollSettings> SettingsOf(const v1::FeedConfig& config) {
  const v1::PollConfig& poll = config.poll();
  PollSettings settings;
  for (const v1::PolledTable& polled : poll.tables()) {
    absl::StatusOr<TableSettings> table = TableOf(config, polled);
    if (!table.ok()) return table.status();
    settings.tables.push_back(*std::move(table));
  }
  if (settings.tables.empty()) return Invalid(config, "no table is polled");
  if (poll.has_interval()) settings.interval = FromDuration(poll.interval());
  if (poll.page_rows() > 0) settings.page_rows = poll.page_rows();
  if (poll.has_overlap()) settings.overlap = FromDuration(poll.overlap());
  if (poll.has_delay()) settings.delay = FromDuration(poll.delay());
  if (poll.has_future_tolerance()) {
    settings.future_tolerance = FromDuration(poll.future_tolerance());
  }
  if (poll.unindexed_rows_max() > 0) settings.unindexed_rows_max = poll.unindexed_rows_max();
  if (poll.postgres().has_silence_timeout()) {
    settings.silence_timeout = FromDuration(poll.postgres().silence_timeout());
  }
  settings.scans = poll.has_key_scan();
  if (poll.key_scan().has_period()) settings.scan_period = FromDuration(poll.key_scan().period());
  if (poll.key_scan().rows_per_second() > 0) {
    settings.scan_rows_per_second = poll.key_scan().rows_per_second();
  }
  return settings;
}

}  // namespace tidemark::capture::poll
