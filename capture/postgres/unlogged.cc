#include "capture/postgres/unlogged.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "capture/postgres/partition_tree.h"
#include "capture/postgres/sql_text.h"
#include "proto/table_name.h"

namespace tidemark::capture::postgres {
namespace {

constexpr char kRelationsSql[] =
    "SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid ="
    " c.relnamespace WHERE (c.relkind IN ('f', 'v', 'm') OR c.relkind IN ('r', 'p') AND"
    " c.relpersistence = 'u') AND NOT c.relispartition AND n.nspname <> 'information_schema' AND"
    " n.nspname NOT LIKE 'pg\\_%' ORDER BY n.nspname, c.relname";
// {} parts. What is partitioned itself holds no rows, whatever it is called.
constexpr char kPartsSql[] =
    "{} SELECT p.root, n.nspname, c.relname, c.relkind = 'f', an.nspname, a.relname FROM parts p"
    " JOIN pg_class c ON c.oid = p.part JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_class a ON a.oid = i.inhparent"
    " JOIN pg_namespace an ON an.oid = a.relnamespace WHERE c.relkind = 'f' OR c.relkind = 'r' AND"
    " c.relpersistence <> 'p' ORDER BY p.root, n.nspname, c.relname";

UnloggedRelation::Kind KindOf(std::string_view relkind) {
  using Kind = UnloggedRelation::Kind;
  if (relkind == "r") return Kind::kUnlogged;
  if (relkind == "p") return Kind::kUnloggedRoot;
  if (relkind == "f") return Kind::kForeign;
  return relkind == "m" ? Kind::kMaterializedView : Kind::kView;
}

std::string_view WhatItIs(UnloggedRelation::Kind kind) {
  switch (kind) {
    case UnloggedRelation::Kind::kUnlogged:
      return "UNLOGGED";
    case UnloggedRelation::Kind::kUnloggedRoot:
      return "a partitioned table that was made UNLOGGED";
    case UnloggedRelation::Kind::kForeign:
      return "a foreign table";
    case UnloggedRelation::Kind::kView:
      return "a view";
    case UnloggedRelation::Kind::kMaterializedView:
      return "a materialized view";
  }
  return "";
}

// The texts of the first of them, and how many more there are.
template <class Each>
std::string ListText(std::span<const Each> all, std::string (*text_of)(const Each&)) {
  std::string text;
  for (const Each& each : all.first(std::min(all.size(), kNamedUnloggedMax))) {
    text += (text.empty() ? "" : ", ") + text_of(each);
  }
  if (all.size() > kNamedUnloggedMax) {
    text += fmt::format(", and {} more", all.size() - kNamedUnloggedMax);
  }
  return text;
}

std::string PartText(const UnloggedPart& part) {
  return fmt::format("{} is {}", TableNameText(part.schema, part.table),
                     part.foreign ? "a foreign table" : "UNLOGGED");
}

}  // namespace

absl::StatusOr<std::vector<UnloggedRelation>> ReadUnlogged(Connection* sql,
                                                           std::span<const TablePattern> patterns,
                                                           absl::Time deadline) {
  absl::StatusOr<ResultRows> rows =
      sql->Query(kRelationsSql, "looking for tables that are not logged", deadline);
  if (!rows.ok()) return rows.status();
  std::vector<UnloggedRelation> found;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    const bool fits = std::any_of(patterns.begin(), patterns.end(), [&](const TablePattern& p) {
      return p.Matches(rows->Text(row, 0), rows->Text(row, 1));
    });
    if (!fits) continue;
    found.push_back({KindOf(rows->Text(row, 2)), rows->Text(row, 0), rows->Text(row, 1)});
  }
  return found;
}

const UnloggedRelation* FindNamed(std::span<const TablePattern> patterns,
                                  std::span<const UnloggedRelation> unlogged) {
  for (const TablePattern& pattern : patterns) {
    if (!pattern.exact()) continue;
    for (const UnloggedRelation& relation : unlogged) {
      if (pattern.Matches(relation.schema, relation.table)) return &relation;
    }
  }
  return nullptr;
}

std::string UnloggedText(const UnloggedRelation& relation) {
  return fmt::format("{} is {}", TableNameText(relation.schema, relation.table),
                     WhatItIs(relation.kind));
}

std::string UnloggedText(std::span<const UnloggedRelation> unlogged) {
  return ListText<UnloggedRelation>(unlogged, UnloggedText);
}

std::string UnloggedAdvice(const UnloggedRelation& relation) {
  switch (relation.kind) {
    case UnloggedRelation::Kind::kUnlogged:
      return fmt::format("run ALTER TABLE {} SET LOGGED, or take it out of the feed's tables",
                         QuoteTable(relation.schema, relation.table));
    case UnloggedRelation::Kind::kUnloggedRoot:
      return "make it anew without UNLOGGED, or take it out of the feed's tables";
    case UnloggedRelation::Kind::kForeign:
      return "capture the database that its rows are in, and take it out of this feed's tables";
    case UnloggedRelation::Kind::kView:
    case UnloggedRelation::Kind::kMaterializedView:
      return "put the tables that it is made of into the feed's tables in its place";
  }
  return "";
}

std::string UnloggedRemedy(const UnloggedRelation& relation) {
  if (relation.kind != UnloggedRelation::Kind::kUnlogged) return "-- " + UnloggedAdvice(relation);
  return fmt::format("ALTER TABLE {} SET LOGGED;", QuoteTable(relation.schema, relation.table));
}

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
  return ListText(parts, PartText);
}

std::string UnloggedPartsRemedy(std::span<const UnloggedPart> parts) {
  std::string sql;
  for (const UnloggedPart& part : parts.first(std::min(parts.size(), kNamedUnloggedMax))) {
    const std::string name = QuoteTable(part.schema, part.table);
    sql += sql.empty() ? "" : " ";
    sql += part.foreign ? fmt::format("ALTER TABLE {} DETACH PARTITION {};",
                                      QuoteTable(part.parent_schema, part.parent_table), name)
                        : fmt::format("ALTER TABLE {} SET LOGGED;", name);
  }
  return sql;
}

}  // namespace tidemark::capture::postgres
