// The configuration of a changelog, with every default filled in. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/table_name.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::changelog {

inline constexpr absl::Duration kIntervalDefault = absl::Milliseconds(500);
inline constexpr absl::Duration kSilenceTimeoutDefault = absl::Seconds(30);
inline constexpr uint32_t kPageRowsDefault = 1000;

enum class Strategy { kSnapshot, kXidWatermark };

// As it stands in the configuration and in a checkpoint.
std::string_view StrategyWord(Strategy strategy);

struct ColumnNames {
  std::string seq;
  std::string xid;
  std::string schema_name;
  std::string table_name;
  std::string op;
  std::string key;
  std::string row;
  // These may be missing in the table, unless the configuration names them.
  std::string changed_at;
  std::string old_row;
  bool changed_at_named = false;
  bool old_row_named = false;
};

struct Settings {
  std::string schema;
  std::string table;
  ColumnNames columns;
  Strategy strategy = Strategy::kSnapshot;
  // From the end of a pull to the next.
  absl::Duration interval = kIntervalDefault;
  uint32_t page_rows = kPageRowsDefault;
  bool trim = false;
  absl::Duration silence_timeout = kSilenceTimeoutDefault;
  // Tables whose changes are to carry the row before them.
  std::vector<TablePattern> before_images;

  // tidemark.changelog, quoted where it must be.
  std::string TableText() const { return TableNameText(schema, table); }
};

// CONFIG_INVALID when it cannot be read. REQUIRES: config.has_changelog().
absl::StatusOr<Settings> SettingsOf(const v1::FeedConfig& config);

}  // namespace tidemark::capture::changelog
