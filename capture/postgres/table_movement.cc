// MovementBetween: which changes of the catalog mean that rows may have moved without a message.
#include <fmt/format.h>

#include <algorithm>

#include "capture/postgres/table_sighting.h"

namespace tidemark::capture::postgres {
namespace {

using Columns = google::protobuf::RepeatedPtrField<v1::PostgresColumnFacts>;

template <class Repeated>
bool Same(const Repeated& a, const Repeated& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

const v1::PostgresColumnFacts* ColumnOfName(const Columns& columns, const std::string& name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const auto& column) { return column.name() == name; });
  return found == columns.end() ? nullptr : &*found;
}

const v1::PostgresColumnFacts* ColumnOfNumber(const Columns& columns, uint32_t number) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const auto& column) { return column.number() == number; });
  return found == columns.end() ? nullptr : &*found;
}

// What the rows of before hold under the name of `now`, if that is not what they hold at the
// source. A rewrite updates the catalog's rows of the columns whose values it changes; truncating
// or vacuuming does not.
std::string MovedColumn(const v1::PostgresTableFacts& before, const v1::PostgresColumnFacts& now,
                        bool rewritten) {
  const v1::PostgresColumnFacts* same = ColumnOfNumber(before.columns(), now.number());
  if (same == nullptr) {
    if (ColumnOfName(before.columns(), now.name()) != nullptr) {
      return fmt::format("column {} was dropped and added again", now.name());
    }
    if (now.has_missing() || rewritten) {
      return fmt::format("column {} was added with a value for the rows there were", now.name());
    }
    return "";
  }
  if (same->name() != now.name()) {
    return fmt::format("column {} was renamed to {}", same->name(), now.name());
  }
  if (rewritten && same->xmin() != now.xmin()) {
    return fmt::format("it was rewritten for column {}", now.name());
  }
  return "";
}

// Which of its parts hold the rows, and in which files.
std::string MovedParts(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now) {
  const auto parts = [](const v1::PostgresTableFacts& facts) {
    std::vector<std::string> oids;
    for (const std::string& file : facts.files()) oids.push_back(file.substr(0, file.find(':')));
    return oids;
  };
  if (parts(before) != parts(now)) return "it got or lost partitions";
  return Same(before.files(), now.files()) ? "" : "a partition was truncated or rewritten";
}

}  // namespace

Movement MovementBetween(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now) {
  using Kind = Movement::Kind;
  if (!Same(before.key_columns(), now.key_columns())) {
    return {Kind::kReload, "its rows are told apart by other columns", !before.published()};
  }
  if (!before.published()) return {Kind::kRead, "it was added to the publication", true};
  if (!Same(before.published_columns(), now.published_columns())) {
    return {Kind::kRead, "the publication sends other columns of it", true};
  }
  if (before.row_filter() != now.row_filter()) {
    return {Kind::kRead, "the publication sends other rows of it", true};
  }
  if (before.oid() != now.oid()) return {Kind::kRead, "it was replaced by another table"};
  const bool rewritten = !Same(before.files(), now.files());
  for (const v1::PostgresColumnFacts& column : now.columns()) {
    std::string cause = MovedColumn(before, column, rewritten);
    if (!cause.empty()) return {Kind::kRead, std::move(cause)};
  }
  if (now.partitioned()) {
    std::string cause = MovedParts(before, now);
    if (!cause.empty()) return {Kind::kRead, std::move(cause)};
  }
  return {};
}

}  // namespace tidemark::capture::postgres
