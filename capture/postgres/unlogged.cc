#include "capture/postgres/unlogged.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "capture/postgres/partition_tree.h"
#include "capture/postgres/sql_text.h"
#include "proto/table_name.h"

namespace tidemark::capture::postgres {
namespace {

// {} parts. What is partitioned itself holds no rows, whatever it is called.
constexpr char kPartsSql[] =
    "{} SELECT p.root, n.nspname, c.relname, c.relkind = 'f', an.nspname, a.relname FROM parts p"
    " JOIN pg_class c ON c.oid = p.part JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_class a ON a.oid = i.inhparent"
    " JOIN pg_namespace an ON an.oid = a.relnamespace WHERE c.relkind = 'f' OR c.relkind = 'r' AND"
    " c.relpersistence <> 'p' ORDER BY p.root, n.nspname, c.relname";

std::span<const UnloggedPart> Named(std::span<const UnloggedPart> parts) {
  return parts.first(std::min(parts.size(), kNamedUnloggedMax));
}

}  // namespace

absl::StatusOr<UnloggedPartsByRoot> ReadUnloggedParts(Connection* sql,
                                                      std::span<const uint32_t> root_oids,
                                                      absl::Time deadline) {
  UnloggedPartsByRoot found;
  if (root_oids.empty()) return found;
  const std::string roots = fmt::format("r.oid IN ({})", fmt::join(root_oids, ","));
  absl::StatusOr<ResultRows> rows =
      sql->Query(fmt::format(kPartsSql, WithParts(sql->server_version(), roots)),
                 "looking for partitions that are not logged", deadline);
  if (!rows.ok()) return rows.status();
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    found[static_cast<uint32_t>(rows->Number(row, 0))].push_back(
        {.schema = rows->Text(row, 1),
         .table = rows->Text(row, 2),
         .foreign = rows->True(row, 3),
         .parent_schema = rows->Text(row, 4),
         .parent_table = rows->Text(row, 5)});
  }
  return found;
}

std::string UnloggedPartsText(std::span<const UnloggedPart> parts) {
  std::string text;
  for (const UnloggedPart& part : Named(parts)) {
    text +=
        fmt::format("{}{} is {}", text.empty() ? "" : ", ", TableNameText(part.schema, part.table),
                    part.foreign ? "a foreign table" : "UNLOGGED");
  }
  if (parts.size() > kNamedUnloggedMax) {
    text += fmt::format(", and {} more", parts.size() - kNamedUnloggedMax);
  }
  return text;
}

std::string UnloggedPartsRemedy(std::span<const UnloggedPart> parts) {
  std::string sql;
  for (const UnloggedPart& part : Named(parts)) {
    const std::string name = QuoteTable(part.schema, part.table);
    sql += sql.empty() ? "" : " ";
    sql += part.foreign ? fmt::format("ALTER TABLE {} DETACH PARTITION {};",
                                      QuoteTable(part.parent_schema, part.parent_table), name)
                        : fmt::format("ALTER TABLE {} SET LOGGED;", name);
  }
  return sql;
}

}  // namespace tidemark::capture::postgres
