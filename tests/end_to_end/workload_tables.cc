#include "tests/end_to_end/workload_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark::testing {
namespace {

using Kind = WorkloadTable::Kind;

constexpr int kKeys = 40;
constexpr int kPartitions = 4;
constexpr int kPairGroups = 5;
const std::vector<std::string> kExtraNames = {"c0", "c1", "c2"};
const std::vector<std::string> kExtraTypes = {"int", "bigint", "numeric", "text", "timestamp"};

// Longer than what a page keeps in line, so that an update that leaves it alone does not say it.
std::string LargeValue(Dice* dice) {
  if (dice->OneIn(6)) return "null";
  return fmt::format("repeat('{:x}', {})", 4096 + dice->Below(60'000), 600 + dice->Below(1200));
}

std::string ValueOf(const std::string& type, Dice* dice) {
  if (dice->OneIn(5)) return "null";
  if (type == "text") return fmt::format("'t{}'", dice->Below(1000));
  if (type == "timestamp" || type == "timestamptz") {
    return fmt::format("timestamp '2026-01-01' + interval '{} s'", dice->Below(1000));
  }
  return std::to_string(dice->Below(1000));
}

int PartitionOf(const WorkloadTable& table, Dice* dice) {
  return table.attached.empty() ? 1 : dice->Pick(table.attached);
}

// ---- Rows.

std::string KeyColumns(const WorkloadTable& table) {
  switch (table.kind) {
    case Kind::kPair:
      return "a, b";
    case Kind::kPartitioned:
      return "id, k";
    default:
      return "id";
  }
}

std::string KeyValues(const WorkloadTable& table, const std::string& number, Dice* dice) {
  switch (table.kind) {
    case Kind::kPair:
      return fmt::format("{} % {}, 'k' || {}", number, kPairGroups, number);
    case Kind::kPartitioned:
      return fmt::format("{}, {}", number, PartitionOf(table, dice));
    default:
      return number;
  }
}

std::string WhereKey(const WorkloadTable& table, int number) {
  if (table.kind == Kind::kPair) {
    return fmt::format("a = {} and b = 'k{}'", number % kPairGroups, number);
  }
  return fmt::format("id = {}", number);
}

std::string WhereSome(const WorkloadTable& table, Dice* dice) {
  const int first = dice->Below(kKeys);
  if (table.kind == Kind::kPair) return fmt::format("a = {}", first % kPairGroups);
  return fmt::format("id between {} and {}", first, first + dice->Below(12));
}

// Rows that are equal, also to those that are there.
std::string InsertEqual(const WorkloadTable& table, Dice* dice) {
  return fmt::format(
      "insert into {} (id, n, note, big) select nullif({}, 0), {}, null, {} from "
      "generate_series(1, {})",
      table.name, dice->Below(kKeys), dice->Below(3), LargeValue(dice), 1 + dice->Below(6));
}

std::string InsertMany(const WorkloadTable& table, Dice* dice) {
  if (table.kind == Kind::kKeyless) return InsertEqual(table, dice);
  const int first = dice->Below(kKeys);
  return fmt::format(
      "insert into {0} ({1}, n, note, big) select {2}, {3}, 'many ' || i, {4} from "
      "generate_series({5}, {6}) i on conflict ({1}) do nothing",
      table.name, KeyColumns(table), KeyValues(table, "i", dice), dice->Below(1000),
      LargeValue(dice), first, std::min(first + dice->Below(15), kKeys - 1));
}

std::string Upsert(const WorkloadTable& table, Dice* dice) {
  return fmt::format(
      "insert into {0} ({1}, n, note, big) values ({2}, {3}, null, {4}) on conflict ({1}) do "
      "update set n = excluded.n{5}",
      table.name, KeyColumns(table), KeyValues(table, std::to_string(dice->Below(kKeys)), dice),
      dice->Below(1000), LargeValue(dice), dice->OneIn(2) ? ", big = excluded.big" : "");
}

std::string ChangeKey(const WorkloadTable& table, Dice* dice) {
  const int from = dice->Below(kKeys);
  const int to = dice->Below(kKeys);
  switch (table.kind) {
    case Kind::kPair:
      return fmt::format(
          "update {0} set a = {1}, b = 'k{2}' where {3} and not exists (select from {0} where "
          "{4})",
          table.name, to % kPairGroups, to, WhereKey(table, from), WhereKey(table, to));
    case Kind::kPartitioned: {
      // Within a partition, or from one to another.
      const int k = PartitionOf(table, dice);
      const int k_to = dice->OneIn(2) ? k : PartitionOf(table, dice);
      return fmt::format(
          "update {0} set id = {1}, k = {2} where id = {3} and k = {4} and not exists (select from "
          "{0} where id = {1} and k = {2})",
          table.name, to, k_to, from, k);
    }
    default:
      return fmt::format(
          "update {0} set id = {1} where id = {2} and not exists (select from {0} where id = {1})",
          table.name, to, from);
  }
}

std::string ChangeTyped(const WorkloadTable& table, Dice* dice) {
  return fmt::format(
      "update {} set mood = 'm{}', amount = {}.{}, tags = array['a b', null, '{}'] where {}",
      table.name, dice->Below(2), dice->Below(100), 10 + dice->Below(90), dice->Below(10),
      WhereSome(table, dice));
}

std::string ChangeExtra(const WorkloadTable& table, Dice* dice) {
  const auto [name, type] = dice->Pick(table.extras);
  return fmt::format("update {} set {} = {} where {}", table.name, name, ValueOf(type, dice),
                     WhereSome(table, dice));
}

std::string RowSql(const WorkloadTable& table, Dice* dice) {
  switch (dice->Below(14)) {
    case 0:
    case 1:
      return InsertMany(table, dice);
    case 2:
    case 3:
      if (table.kind == Kind::kKeyless) {
        return fmt::format("delete from {} where id is null or {}", table.name,
                           WhereSome(table, dice));
      }
      return Upsert(table, dice);
    case 4:
    case 5:
      return ChangeKey(table, dice);
    case 6:
      return fmt::format("delete from {} where {}", table.name,
                         WhereKey(table, dice->Below(kKeys)));
    case 7:
      return fmt::format("update {} set big = {} where {}", table.name, LargeValue(dice),
                         WhereSome(table, dice));
    case 8:
      return fmt::format("update {} set big = big || 'x', note = null where {}", table.name,
                         WhereKey(table, dice->Below(kKeys)));
    case 9:
      if (dice->OneIn(4)) return "truncate " + table.name;
      [[fallthrough]];
    case 10:
      if (table.kind == Kind::kTyped) return ChangeTyped(table, dice);
      if (table.kind == Kind::kPartitioned) {
        // A partition by its own name: told under the root's.
        return fmt::format("update {}_{} set note = 'direct' where {}", table.name,
                           PartitionOf(table, dice), WhereSome(table, dice));
      }
      [[fallthrough]];
    case 11:
      if (!table.extras.empty()) return ChangeExtra(table, dice);
      [[fallthrough]];
    default:
      return fmt::format("update {} set n = n + 1, note = 'n{}' where {}", table.name,
                         dice->Below(100), WhereSome(table, dice));
  }
}

// ---- Shapes.

std::string Definition(const WorkloadTable& table, const std::string& name) {
  constexpr char kRest[] = "n int, note text, big text";
  switch (table.kind) {
    case Kind::kPair:
      return fmt::format("create table {} (a int, b text, {}, primary key (a, b))", name, kRest);
    case Kind::kTyped:
      return fmt::format(
          "create table {} (id int primary key, {}, mood mood, amount amount, tags text[])", name,
          kRest);
    case Kind::kPartitioned:
      return fmt::format(
          "create table {} (id bigint, k int, {}, primary key (id, k)) partition by list (k)", name,
          kRest);
    case Kind::kKeyless:
      return fmt::format("create table {} (id bigint, {})", name, kRest);
    default:
      return fmt::format("create table {} (id bigint primary key, {})", name, kRest);
  }
}

// What a definition says with other words.
std::string RestOfDefinition(const WorkloadTable& table, const std::string& name) {
  std::string sql = fmt::format("alter table {} alter big set storage external", name);
  if (table.kind == Kind::kKeyless) sql += ", replica identity full";
  return sql;
}

// A name that no column has now, or none.
std::string FreeExtra(const WorkloadTable& table, Dice* dice) {
  const std::string name = dice->Pick(kExtraNames);
  for (const auto& [taken, type] : table.extras) {
    if (taken == name) return "";
  }
  return name;
}

void AddColumn(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  const std::string name = FreeExtra(table, dice);
  if (name.empty()) return;
  const std::string type = dice->Pick(kExtraTypes);
  std::string value;
  if (dice->OneIn(2)) {
    const bool is_time = type == "timestamp";
    value = dice->OneIn(2)   ? " default " + ValueOf(type, dice)
            : is_time        ? " default clock_timestamp()"
            : type == "text" ? " default 'v' || (random() * 1000)::int"
                             : " default (random() * 1000)::int";
  }
  change->what = "add column " + name;
  change->statements = {
      fmt::format("alter table {} add column {} {}{}", table.name, name, type, value)};
  change->moves_rows = !value.empty() || table.past_extras.count(name) > 0;
  change->apply = [name, type](WorkloadTable* now) { now->extras.emplace_back(name, type); };
}

void DropColumn(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  if (table.extras.empty()) return AddColumn(table, dice, change);
  const std::string name = dice->Pick(table.extras).first;
  change->what = "drop column " + name;
  change->statements = {fmt::format("alter table {} drop column {}", table.name, name)};
  change->apply = [name](WorkloadTable* now) {
    std::erase_if(now->extras, [&](const auto& extra) { return extra.first == name; });
    now->past_extras.insert(name);
  };
}

void DropAndAddAgain(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  if (table.extras.empty()) return AddColumn(table, dice, change);
  const std::string name = dice->Pick(table.extras).first;
  const std::string type = dice->Pick(kExtraTypes);
  change->what = "drop and add column " + name;
  change->statements = {fmt::format("alter table {} drop column {}", table.name, name),
                        fmt::format("alter table {} add column {} {}", table.name, name, type)};
  change->moves_rows = true;
  change->apply = [name, type](WorkloadTable* now) {
    std::erase_if(now->extras, [&](const auto& extra) { return extra.first == name; });
    now->extras.emplace_back(name, type);
  };
}

void RenameColumn(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  const std::string to = FreeExtra(table, dice);
  if (table.extras.empty() || to.empty()) return AddColumn(table, dice, change);
  const std::string from = dice->Pick(table.extras).first;
  change->what = fmt::format("rename column {} to {}", from, to);
  change->statements = {fmt::format("alter table {} rename {} to {}", table.name, from, to)};
  change->moves_rows = true;
  change->apply = [from, to](WorkloadTable* now) {
    for (auto& [name, type] : now->extras) {
      if (name == from) name = to;
    }
    now->past_extras.insert(from);
  };
}

void Retype(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  change->moves_rows = true;
  if (table.extras.empty() || dice->OneIn(3)) {
    const bool to_bigint = !table.n_is_bigint;
    change->what = "retype n";
    change->statements = {fmt::format("alter table {} alter n type {} using n + 1", table.name,
                                      to_bigint ? "bigint" : "int")};
    change->apply = [to_bigint](WorkloadTable* now) { now->n_is_bigint = to_bigint; };
    return;
  }
  const auto [name, type] = dice->Pick(table.extras);
  std::string to = "text";
  std::string expression = name + "::text || '!'";
  if (type == "text") {
    to = "int";
    expression = fmt::format("length({})", name);
  } else if (type == "timestamp" || type == "timestamptz") {
    // Not a byte is rewritten, and the text is another.
    to = type == "timestamp" ? "timestamptz" : "timestamp";
    expression = name;
  }
  change->what = fmt::format("retype {} from {} to {}", name, type, to);
  change->statements = {
      fmt::format("alter table {} alter {} drop default", table.name, name),
      fmt::format("alter table {} alter {} type {} using {}", table.name, name, to, expression)};
  change->apply = [name = name, to](WorkloadTable* now) {
    for (auto& [column, column_type] : now->extras) {
      if (column == name) column_type = to;
    }
  };
}

void ForgetShape(WorkloadTable* now) {
  for (const auto& [name, type] : now->extras) now->past_extras.insert(name);
  now->extras.clear();
  now->n_is_bigint = false;
  now->full_identity = false;
}

void Recreate(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  change->what = "drop and create";
  change->moves_rows = true;
  WorkloadTable fresh = table;
  fresh.extras.clear();
  change->statements = {"drop table " + table.name, Definition(table, table.name),
                        RestOfDefinition(table, table.name)};
  if (!dice->OneIn(4)) change->statements.push_back(InsertMany(fresh, dice));
  // A moment without the table, or none.
  change->together = !dice->OneIn(4);
  change->apply = ForgetShape;
}

void Swap(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  change->what = "stage and swap";
  change->moves_rows = true;
  const std::string stage = table.name + "_stage";
  const std::string out = table.name + "_out";
  change->statements = {
      fmt::format("drop table if exists {}, {}", stage, out),
      fmt::format("create table {} (like {} including all)", stage, table.name),
      fmt::format("insert into {} select * from {} where {}", stage, table.name,
                  table.kind == Kind::kPair ? "a <> 1" : "id % 5 <> 1"),
      fmt::format("update {} set note = 'staged' where {}", stage, WhereSome(table, dice)),
      fmt::format("begin; alter table {0} rename to {1}; alter table {2} rename to {0}; commit",
                  table.name, out, stage)};
  if (table.kind == Kind::kKeyless) {
    change->statements.insert(change->statements.begin() + 2, RestOfDefinition(table, stage));
  }
  change->together = false;
  change->apply = [](WorkloadTable* now) { now->full_identity = false; };
}

void Identity(const WorkloadTable& table, ShapeChange* change) {
  const bool to_full = !table.full_identity;
  change->what = to_full ? "replica identity full" : "replica identity default";
  change->statements = {fmt::format("alter table {} {}", table.name, change->what)};
  change->apply = [to_full](WorkloadTable* now) { now->full_identity = to_full; };
}

std::string PartitionName(const WorkloadTable& table, int k) {
  return fmt::format("{}_{}", table.name, k);
}

std::string Attach(const WorkloadTable& table, int k) {
  return fmt::format("alter table {} attach partition {} for values in ({})", table.name,
                     PartitionName(table, k), k);
}

std::string Detach(const WorkloadTable& table, int k) {
  return fmt::format("alter table {} detach partition {}", table.name, PartitionName(table, k));
}

// Of a table that is on its own: nobody is told.
std::vector<std::string> EditAlone(const WorkloadTable& table, int k, Dice* dice) {
  const std::string name = PartitionName(table, k);
  return {fmt::format("delete from {} where id % 4 = {}", name, dice->Below(4)),
          fmt::format("update {} set note = 'alone' where id % 3 = {}", name, dice->Below(3)),
          fmt::format("insert into {0} (id, k, n, big) select {1} + i, {2}, i, {3} from "
                      "generate_series(0, 3) i on conflict do nothing",
                      name, dice->Below(kKeys - 4), k, LargeValue(dice))};
}

void MovePartition(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  change->moves_rows = true;
  const int k = PartitionOf(table, dice);
  const bool has_one = table.attached.size() > 1;
  switch (dice->Below(4)) {
    case 0:
      if (!table.detached.empty()) {
        const int back = dice->Pick(table.detached);
        const std::string name = PartitionName(table, back);
        change->what = fmt::format("attach {}", back);
        // Its shape may have stayed behind.
        change->statements = {
            "drop table " + name,
            fmt::format("create table {} (like {} including all)", name, table.name)};
        for (std::string& sql : EditAlone(table, back, dice)) {
          change->statements.push_back(std::move(sql));
        }
        change->statements.push_back(Attach(table, back));
        change->apply = [back](WorkloadTable* now) {
          now->detached.erase(back);
          now->attached.insert(back);
        };
        return;
      }
      [[fallthrough]];
    case 1:
      if (has_one) {
        change->what = fmt::format("detach {}", k);
        change->statements = {Detach(table, k)};
        change->apply = [k](WorkloadTable* now) {
          now->attached.erase(k);
          now->detached.insert(k);
        };
        return;
      }
      [[fallthrough]];
    case 2:
      change->what = fmt::format("truncate partition {}", k);
      change->statements = {"truncate " + PartitionName(table, k)};
      if (dice->OneIn(2)) change->statements.push_back(InsertMany(table, dice));
      return;
    default:
      change->what = fmt::format("detach, edit and attach {}", k);
      change->statements = EditAlone(table, k, dice);
      change->statements.insert(change->statements.begin(), Detach(table, k));
      change->statements.push_back(Attach(table, k));
      change->together = dice->OneIn(2);
  }
}

void NewOrDroppedPartition(const WorkloadTable& table, Dice* dice, ShapeChange* change) {
  for (int k = 1; k <= kPartitions; ++k) {
    if (table.attached.count(k) + table.detached.count(k) > 0) continue;
    change->what = fmt::format("new partition {}", k);
    change->statements = {fmt::format("create table {} partition of {} for values in ({})",
                                      PartitionName(table, k), table.name, k)};
    change->apply = [k](WorkloadTable* now) { now->attached.insert(k); };
    return;
  }
  const int k = PartitionOf(table, dice);
  if (table.attached.size() < 2) return;
  change->what = fmt::format("drop partition {}", k);
  change->moves_rows = true;
  change->statements = {"drop table " + PartitionName(table, k)};
  change->apply = [k](WorkloadTable* now) { now->attached.erase(k); };
}

}  // namespace

const std::vector<std::string>& WorkloadTables::Names() {
  static const auto* const names =
      new std::vector<std::string>{"plain", "whole", "pair", "typed", "parts", "keyless"};
  return *names;
}

WorkloadTables::WorkloadTables(bool keyless) {
  const Kind kinds[] = {Kind::kNumber, Kind::kNumber,      Kind::kPair,
                        Kind::kTyped,  Kind::kPartitioned, Kind::kKeyless};
  for (size_t i = 0; i < Names().size(); ++i) {
    if (kinds[i] == Kind::kKeyless && !keyless) continue;
    WorkloadTable& table = tables_.emplace_back();
    table.name = Names()[i];
    table.kind = kinds[i];
  }
  tables_[1].full_identity = true;
  tables_[4].attached = {1, 2, 3};
  tables_[4].detached = {4};
}

std::string WorkloadTables::CreateSql() {
  std::string sql =
      "create type mood as enum ('m0', 'm1'); create domain amount as numeric(12,3) check (value < "
      "1000000);";
  WorkloadTables tables;
  for (const WorkloadTable& table : tables.tables_) {
    sql += Definition(table, table.name) + ";" + RestOfDefinition(table, table.name) + ";";
    for (const int k : table.attached) {
      sql += fmt::format("create table {} partition of {} for values in ({});",
                         PartitionName(table, k), table.name, k);
    }
    for (const int k : table.detached) {
      sql += fmt::format("create table {} (like {} including all);", PartitionName(table, k),
                         table.name);
    }
    if (table.full_identity) sql += "alter table " + table.name + " replica identity full;";
  }
  return sql;
}

std::string WorkloadTables::RowStatement(Dice* dice, int table) {
  std::lock_guard lock(mutex_);
  return RowSql(table < 0 ? dice->Pick(tables_) : tables_[static_cast<size_t>(table)], dice);
}

ShapeChange WorkloadTables::BeginShapeChange(Dice* dice) {
  std::lock_guard lock(mutex_);
  ShapeChange change;
  change.table = static_cast<size_t>(dice->Below(static_cast<int>(tables_.size())));
  WorkloadTable& table = tables_[change.table];
  if (table.changing) return change;
  change.apply = [](WorkloadTable*) {};
  const bool partitioned = table.kind == Kind::kPartitioned;
  switch (dice->Below(12)) {
    case 0:
      DropColumn(table, dice, &change);
      break;
    case 1:
      DropAndAddAgain(table, dice, &change);
      break;
    case 2:
      RenameColumn(table, dice, &change);
      break;
    case 3:
    case 4:
      Retype(table, dice, &change);
      break;
    case 5:
    case 6:
      partitioned ? MovePartition(table, dice, &change) : Swap(table, dice, &change);
      break;
    case 7:
      partitioned ? NewOrDroppedPartition(table, dice, &change) : Recreate(table, dice, &change);
      break;
    case 8:
      if (partitioned) {
        MovePartition(table, dice, &change);
      } else if (table.kind == Kind::kKeyless) {
        Recreate(table, dice, &change);
      } else {
        Identity(table, &change);
      }
      break;
    case 9:
      if (table.kind == Kind::kTyped) {
        change.what = "another label";
        change.statements = {fmt::format("alter type mood add value 'm{}'", labels_++)};
        break;
      }
      [[fallthrough]];
    default:
      AddColumn(table, dice, &change);
  }
  table.changing = !change.statements.empty();
  return change;
}

void WorkloadTables::EndShapeChange(const ShapeChange& change, bool done) {
  std::lock_guard lock(mutex_);
  WorkloadTable& table = tables_[change.table];
  if (done) change.apply(&table);
  table.changing = false;
}

}  // namespace tidemark::testing
