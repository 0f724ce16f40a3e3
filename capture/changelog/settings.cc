#include "capture/changelog/settings.h"

#include <fmt/format.h>

#include <utility>

#include "proto/reason.h"
#include "proto/timestamps.h"

namespace tidemark::capture::changelog {
namespace {

constexpr char kTableDefault[] = "tidemark.changelog";

std::string Or(const std::string& name, std::string_view otherwise) {
  return name.empty() ? std::string(otherwise) : name;
}

absl::Status Invalid(const v1::FeedConfig& config, const std::string& what) {
  return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kConfigInvalid,
                         fmt::format("feed {}: changelog: {}", config.name(), what));
}

ColumnNames NamesOf(const v1::ChangelogColumns& given) {
  ColumnNames names;
  names.seq = Or(given.seq(), "seq");
  names.xid = Or(given.xid(), "xid");
  names.schema_name = Or(given.schema_name(), "schema_name");
  names.table_name = Or(given.table_name(), "table_name");
  names.op = Or(given.op(), "op");
  names.key = Or(given.key(), "key");
  names.row = Or(given.row(), "row");
  names.changed_at = Or(given.changed_at(), "changed_at");
  names.old_row = Or(given.old_row(), "old_row");
  names.changed_at_named = !given.changed_at().empty();
  names.old_row_named = !given.old_row().empty();
  return names;
}

}  // namespace

std::string_view StrategyWord(Strategy strategy) {
  return strategy == Strategy::kSnapshot ? "snapshot" : "xid_watermark";
}

absl::StatusOr<Settings> SettingsOf(const v1::FeedConfig& config) {
  const v1::ChangelogConfig& given = config.changelog();
  Settings settings;
  const absl::StatusOr<TablePattern> table = TablePattern::Parse(Or(given.table(), kTableDefault));
  if (!table.ok()) return Invalid(config, std::string(table.status().message()));
  if (!table->exact()) return Invalid(config, fmt::format("{} is no one table", given.table()));
  settings.schema = table->schema();
  settings.table = table->table();
  settings.columns = NamesOf(given.columns());
  if (given.strategy() == StrategyWord(Strategy::kXidWatermark)) {
    settings.strategy = Strategy::kXidWatermark;
  } else if (!given.strategy().empty() && given.strategy() != StrategyWord(Strategy::kSnapshot)) {
    return Invalid(
        config, fmt::format("strategy {}: expected snapshot or xid_watermark", given.strategy()));
  }
  if (given.has_interval()) settings.interval = FromDuration(given.interval());
  if (given.page_rows() > 0) settings.page_rows = given.page_rows();
  settings.trim = given.trim();
  if (given.postgres().has_silence_timeout()) {
    settings.silence_timeout = FromDuration(given.postgres().silence_timeout());
  }
  for (const std::string& text : config.before_images()) {
    absl::StatusOr<TablePattern> pattern = TablePattern::Parse(text);
    if (!pattern.ok()) return Invalid(config, std::string(pattern.status().message()));
    settings.before_images.push_back(*std::move(pattern));
  }
  return settings;
}

}  // namespace tidemark::capture::changelog
