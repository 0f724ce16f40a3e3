// The rows of a table as the source holds them, in the form in which a recording folds them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/testing/pg_session.h"
#include "tests/testing/recorded_stream.h"

namespace tidemark::testing {

// Text of every column of every row of public.<table>, in the order of column `id`.
inline absl::StatusOr<std::vector<Columns>> SourceRows(PgSession& session,
                                                       const std::string& table) {
  auto rows = session.Query("select * from public." + table + " order by id");
  if (!rows.ok()) return rows.status();
  std::vector<Columns> result;
  for (const auto& row : rows->rows) {
    Columns columns;
    for (size_t i = 0; i < row.size(); ++i) columns[rows->columns[i]] = row[i];
    result.push_back(std::move(columns));
  }
  return result;
}

// The rows of public.<table> in `folded`, in the order of column `id`.
inline std::vector<Columns> RowsById(const FoldedRows& folded, const std::string& table) {
  std::map<long long, Columns> by_id;
  const auto found = folded.find("public." + table);
  if (found == folded.end()) return {};
  for (const auto& [key, columns] : found->second)
    by_id[std::stoll(columns.at("id").value())] = columns;
  std::vector<Columns> result;
  for (auto& [id, columns] : by_id) result.push_back(columns);
  return result;
}

}  // namespace tidemark::testing
