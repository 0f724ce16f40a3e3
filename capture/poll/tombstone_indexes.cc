#include "capture/poll/tombstone_indexes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "capture/postgres/sql_text.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture::poll {
namespace {

using postgres::QuoteIdentifier;
using postgres::QuoteList;

// Of those that hold every row.
constexpr char kIndexesSql[] =
    "SELECT string_agg(a.attname, chr(1) ORDER BY k.place) FROM pg_index i CROSS JOIN LATERAL"
    " unnest(i.indkey) WITH ORDINALITY k(attnum, place) JOIN pg_attribute a ON a.attrelid ="
    " i.indrelid AND a.attnum = k.attnum WHERE i.indrelid = {} AND i.indisvalid AND i.indpred IS"
    " NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts GROUP BY i.indexrelid";

// Whatever their order.
bool BeginsWith(std::vector<std::string> index, std::vector<std::string> columns) {
  if (index.size() < columns.size()) return false;
  index.resize(columns.size());
  std::sort(index.begin(), index.end());
  std::sort(columns.begin(), columns.end());
  return index == columns;
}

Finding Missing(const TombstoneTable& tombstones, const std::string& message,
                const std::vector<std::string>& columns) {
  return {
      Finding::Severity::kWarning, std::string(reason::kCursorIndexMissing), message,
      fmt::format("CREATE INDEX CONCURRENTLY ON {} ({});",
                  postgres::QuoteTable(tombstones.schema, tombstones.table), QuoteList(columns))};
}

}  // namespace

std::vector<Finding> MissingTombstoneIndexes(const TombstoneTable& tombstones,
                                             const std::vector<std::vector<std::string>>& indexes,
                                             const std::string& polled) {
  const auto is_there = [&](const std::vector<std::string>& columns) {
    return std::any_of(indexes.begin(), indexes.end(),
                       [&](const auto& index) { return BeginsWith(index, columns); });
  };
  const std::string name = TableNameText(tombstones.schema, tombstones.table);
  std::vector<Finding> findings;
  if (!is_there({tombstones.cursor})) {
    std::vector<std::string> wanted = {tombstones.cursor};
    wanted.insert(wanted.end(), tombstones.key.begin(), tombstones.key.end());
    findings.push_back(
        Missing(tombstones,
                fmt::format("no index of table {} begins with its stamp ({}): each poll of table "
                            "{} reads all of it",
                            name, QuoteIdentifier(tombstones.cursor), polled),
                wanted));
  }
  if (!is_there(tombstones.key)) {
    std::vector<std::string> wanted = tombstones.key;
    wanted.push_back(tombstones.cursor);
    findings.push_back(
        Missing(tombstones,
                fmt::format("no index of table {} begins with the key of table {} ({}): all of it "
                            "is read for each row and each tombstone that is",
                            name, polled, QuoteList(tombstones.key)),
                wanted));
  }
  return findings;
}

absl::StatusOr<std::vector<Finding>> LookAtTombstoneIndexes(postgres::Connection* sql,
                                                            const TombstoneTable& tombstones,
                                                            const std::string& polled,
                                                            absl::Time deadline) {
  absl::StatusOr<postgres::ResultRows> rows =
      sql->Query(fmt::format(kIndexesSql, tombstones.oid),
                 fmt::format("looking at the tombstones of table {}", polled), deadline);
  if (!rows.ok()) return rows.status();
  std::vector<std::vector<std::string>> indexes;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    indexes.push_back(absl::StrSplit(rows->Text(row, 0), '\x01'));
  }
  return MissingTombstoneIndexes(tombstones, indexes, polled);
}

}  // namespace tidemark::capture::poll
