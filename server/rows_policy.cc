#include "server/rows_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/table_name.h"

namespace tidemark {
namespace {

template <class Texts>
std::vector<TablePattern> Patterns(const Texts& texts) {
  std::vector<TablePattern> patterns;
  for (const std::string& text : texts) {
    if (auto pattern = TablePattern::Parse(text); pattern.ok()) {
      patterns.push_back(*std::move(pattern));
    }
  }
  return patterns;
}

bool MatchesAny(const std::vector<TablePattern>& patterns, const v1::TableSchema& schema) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const TablePattern& pattern) {
    return pattern.Matches(schema.schema_name(), schema.table_name());
  });
}

}  // namespace

std::function<bool(const v1::TableSchema&)> RowsPolicyOf(const v1::FeedConfig& config) {
  if (config.has_rows() && !config.rows()) return [](const v1::TableSchema&) { return false; };
  return [off = Patterns(config.rows_off())](const v1::TableSchema& schema) {
    return !schema.key_columns().empty() && !MatchesAny(off, schema);
  };
}

bool WantsRows(const v1::FeedConfig& config, std::string_view schema_name,
               std::string_view table_name) {
  v1::TableSchema table;
  table.set_schema_name(std::string(schema_name));
  table.set_table_name(std::string(table_name));
  table.add_key_columns(0);
  return RowsPolicyOf(config)(table);
}

std::function<bool(const v1::TableSchema&)> WantsBeforeOf(const v1::FeedConfig& config) {
  return [wanted = Patterns(config.before_images())](const v1::TableSchema& schema) {
    return MatchesAny(wanted, schema);
  };
}

}  // namespace tidemark
