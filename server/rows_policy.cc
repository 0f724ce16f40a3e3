#include "server/rows_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/table_name.h"

namespace tidemark {

std::function<bool(const v1::TableSchema&)> RowsPolicyOf(const v1::FeedConfig& config) {
  if (config.has_rows() && !config.rows()) return [](const v1::TableSchema&) { return false; };
  std::vector<TablePattern> off;
  for (const std::string& text : config.rows_off()) {
    if (auto pattern = TablePattern::Parse(text); pattern.ok()) off.push_back(*std::move(pattern));
  }
  return [off = std::move(off)](const v1::TableSchema& schema) {
    return !schema.key_columns().empty() &&
           std::none_of(off.begin(), off.end(), [&](const TablePattern& pattern) {
             return pattern.Matches(schema.schema_name(), schema.table_name());
           });
  };
}

}  // namespace tidemark
