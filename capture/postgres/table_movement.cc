// MovementBetween: which changes of the catalog mean that rows may have moved without a message.
#include <fmt/format.h>

#include <algorithm>

#include "capture/postgres/table_sighting.h"

namespace tidemark::capture::postgres {
namespace {

// Never the beginning of what a look finds.
constexpr char kStreamedPart[] = "streamed:";

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

// Where more went than are remembered, any name may be one of them.
bool WasColumn(const v1::PostgresTableFacts& before, const std::string& name) {
  const auto& past = before.past_columns();
  return ColumnOfName(before.columns(), name) != nullptr || past.size() >= kPastColumnsMax ||
         std::find(past.begin(), past.end(), name) != past.end();
}

// What the rows of before hold under the name of `now`, if that is not what they hold at the
// source. A rewrite updates the catalog's rows of the columns whose values it changes; truncating
// or vacuuming does not.
std::string MovedColumn(const v1::PostgresTableFacts& before, const v1::PostgresColumnFacts& now,
                        bool rewritten) {
  const v1::PostgresColumnFacts* same = ColumnOfNumber(before.columns(), now.number());
  if (same == nullptr) {
    if (WasColumn(before, now.name())) {
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
  if (!SaysTheSame(same->type_oid(), now.type_oid())) {
    return fmt::format("column {} got another type", now.name());
  }
  return "";
}

// Numbers are never given again: where one is left out below a column that is new, another column
// came and went since, and may have had its name.
std::string ColumnsBetween(const Columns& before, const Columns& now) {
  uint32_t last = 0;
  for (const v1::PostgresColumnFacts& column : before) last = std::max(last, column.number());
  for (const v1::PostgresColumnFacts& column : now) {  // rising by number
    if (column.number() <= last) continue;
    if (column.number() != last + 1) {
      return fmt::format("column {} may have been another one meanwhile", column.name());
    }
    last = column.number();
  }
  return "";
}

// A key column that is only renamed stays the key.
bool SameKey(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now) {
  if (Same(before.key_columns(), now.key_columns())) return true;
  if (before.oid() != now.oid()) return false;
  return std::equal(
      before.key_columns().begin(), before.key_columns().end(), now.key_columns().begin(),
      now.key_columns().end(), [&](const std::string& old_name, const std::string& name) {
        const v1::PostgresColumnFacts* old_column = ColumnOfName(before.columns(), old_name);
        const v1::PostgresColumnFacts* column = ColumnOfName(now.columns(), name);
        return old_column != nullptr && column != nullptr &&
               old_column->number() == column->number();
      });
}

// Of every part, what stands before colon number `colons`.
std::vector<std::string> Parts(const v1::PostgresTableFacts& facts, int colons) {
  std::vector<std::string> parts;
  for (const std::string& file : facts.files()) {
    size_t end = file.find(':');
    for (int i = 1; i < colons && end != std::string::npos; ++i) end = file.find(':', end + 1);
    parts.push_back(file.substr(0, end));
  }
  return parts;
}

// Which of its parts hold the rows, and in which files.
std::string MovedParts(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now) {
  if (Same(before.files(), now.files())) return "";
  if (Parts(before, 1) != Parts(now, 1)) return "it got or lost partitions";
  if (Parts(before, 2) != Parts(now, 2)) return "a partition was truncated or rewritten";
  return "a partition was detached and attached again";
}

// A new owner is noted where a new name is, and moves nothing.
bool Renamed(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now) {
  const std::string& named = before.named_xmin();
  const std::string owner = named.substr(0, named.find(':') + 1);
  return !owner.empty() && named != now.named_xmin() && now.named_xmin().starts_with(owner);
}

// Other rows of the catalog make the publication send it: it may have been without for a moment.
// They are not known of a table that was looked at before they were noted.
bool PublishedAnew(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now) {
  if (!before.published()) return true;
  return !before.published_by().empty() && before.published_by() != now.published_by();
}

}  // namespace

// The same text may be another value of another type, and nothing is rewritten where the bytes on
// the disk stay: a timestamp that gets a time zone.
bool SaysTheSame(uint32_t type_before, uint32_t type_now) {
  constexpr uint32_t kText = 25;
  constexpr uint32_t kVarchar = 1043;
  const auto is_text = [](uint32_t type) { return type == kText || type == kVarchar; };
  return type_before == type_now || (is_text(type_before) && is_text(type_now));
}

void AddPastColumns(const v1::PostgresTableFacts& before, v1::PostgresTableFacts* now) {
  std::vector<std::string> past(before.past_columns().begin(), before.past_columns().end());
  for (const auto& column : before.columns()) past.push_back(column.name());
  std::sort(past.begin(), past.end());
  past.erase(std::unique(past.begin(), past.end()), past.end());
  now->clear_past_columns();
  for (std::string& name : past) {
    if (now->past_columns_size() == kPastColumnsMax) return;
    if (ColumnOfName(now->columns(), name) == nullptr) now->add_past_columns(std::move(name));
  }
}

bool NotePart(uint32_t part_oid, v1::PostgresTableFacts* facts) {
  const std::string seen = fmt::format("{}:", part_oid);
  const std::string streamed = fmt::format("{}{}", kStreamedPart, part_oid);
  for (const std::string& file : facts->files()) {
    if (file.starts_with(seen) || file == streamed) return false;
  }
  facts->add_files(streamed);
  return true;
}

bool HasParts(const v1::PostgresTableFacts& facts, std::span<const uint32_t> part_oids) {
  return std::equal(facts.files().begin(), facts.files().end(), part_oids.begin(), part_oids.end(),
                    [](const std::string& file, uint32_t oid) {
                      return file.starts_with(fmt::format("{}:", oid));
                    });
}

std::string AlteredUnseen(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now) {
  for (const v1::PostgresColumnFacts& column : now.columns()) {
    const v1::PostgresColumnFacts* same = ColumnOfNumber(before.columns(), column.number());
    if (same == nullptr || same->xmin() == column.xmin()) continue;
    return fmt::format("column {} was altered while nobody looked", column.name());
  }
  return "";
}

Movement MovementBetween(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now) {
  using Kind = Movement::Kind;
  const bool published_anew = PublishedAnew(before, now);
  if (!SameKey(before, now)) {
    return {Kind::kReload, "its rows are told apart by other columns", published_anew};
  }
  if (before.oid() != now.oid()) {
    return {Kind::kRead, "it was replaced by another table", published_anew};
  }
  if (before.unlogged_part()) {
    return {Kind::kRead, "changes of one of its partitions were in no log", true};
  }
  if (!before.published()) return {Kind::kRead, "it was added to the publication", true};
  if (!Same(before.published_columns(), now.published_columns())) {
    return {Kind::kRead, "the publication sends other columns of it", true};
  }
  if (published_anew) {
    return {Kind::kRead, "the publication was changed, and may not have sent all of it meanwhile",
            true};
  }
  if (Renamed(before, now)) {
    return {Kind::kRead, "it had another name or schema, or another table had its name"};
  }
  const bool rewritten = !Same(before.files(), now.files());
  for (const v1::PostgresColumnFacts& column : now.columns()) {
    std::string cause = MovedColumn(before, column, rewritten);
    if (!cause.empty()) return {Kind::kRead, std::move(cause)};
  }
  if (std::string cause = ColumnsBetween(before.columns(), now.columns()); !cause.empty()) {
    return {Kind::kRead, std::move(cause)};
  }
  if (now.partitioned()) {
    std::string cause = MovedParts(before, now);
    if (!cause.empty()) return {Kind::kRead, std::move(cause)};
  }
  return {};
}

}  // namespace tidemark::capture::postgres
