#include "capture/changelog/table_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

using postgres::Connection;
using postgres::ResultRows;

constexpr char kDoing[] = "looking at the changelog";
constexpr char kJsonTypes[] = "jsonb or json";
constexpr char kTextTypes[] = "text";

// What the columns must be; `types` are the accepted ones.
struct ColumnRule {
  const std::string* name;
  std::vector<std::string_view> types;
  const char* wanted;
  bool required = true;
};

std::vector<ColumnRule> RulesOf(const ColumnNames& names) {
  const std::vector<std::string_view> text = {"text", "character varying", "name", "character",
                                              "\"char\""};
  const std::vector<std::string_view> json = {"jsonb", "json"};
  return {{&names.seq, {"bigint"}, "bigint"},
          {&names.xid, {"xid8"}, "xid8"},
          {&names.schema_name, text, kTextTypes},
          {&names.table_name, text, kTextTypes},
          {&names.op, text, kTextTypes},
          {&names.key, json, kJsonTypes},
          {&names.row, json, kJsonTypes},
          {&names.old_row, json, kJsonTypes, names.old_row_named},
          {&names.changed_at,
           {"timestamp with time zone"},
           "timestamp with time zone",
           names.changed_at_named}};
}

class Lacks {
 public:
  Lacks(const TableFacts& facts, const Settings& settings)
      : facts_(facts), settings_(settings), statements_(settings, facts.optional(settings)) {}

  std::vector<Lack> Find() {
    if (facts_.oid == 0) {
      Add(reason::kSourceTableMissing,
          fmt::format("there is no table {}, or it is in another database", Name()),
          "run deploy/sql/changelog/create.sql there, or name the table in changelog.table");
      return std::move(found_);
    }
    Kind();
    Privileges();
    Columns();
    if (found_.empty()) Sequences();
    if (found_.empty()) Indexes();
    Strategies();
    Triggers();
    Durability();
    return std::move(found_);
  }

 private:
  std::string Name() const { return settings_.TableText(); }
  void Add(std::string_view reason, std::string message, std::string remedy, bool warning = false) {
    found_.push_back({std::string(reason), std::move(message), std::move(remedy), warning});
  }

  void Kind() {
    if (facts_.kind == "r" || facts_.kind == "p") return;
    Add(reason::kChangelogUnusable,
        fmt::format("{} is a view, or lies in another server: its numbers cannot be trusted",
                    Name()),
        "name the table itself in changelog.table");
  }

  void Privileges() {
    if (!facts_.may_use_schema) {
      Add(reason::kSourcePrivilege,
          fmt::format("role {} may not use schema {}", facts_.role, settings_.schema),
          statements_.GrantUsage(facts_.role));
    }
    if (!facts_.may_select) {
      Add(reason::kSourcePrivilege, fmt::format("role {} may not read {}", facts_.role, Name()),
          statements_.GrantSelect(facts_.role, settings_.trim));
    } else if (settings_.trim && !facts_.may_delete && !facts_.in_recovery) {
      Add(reason::kSourcePrivilege,
          fmt::format("role {} may not delete from {}, and trim is on", facts_.role, Name()),
          statements_.GrantSelect(facts_.role, true));
    }
    if (facts_.hides_rows) {
      Add(reason::kSourcePrivilege,
          fmt::format("row level security would show role {} only some rows of {}", facts_.role,
                      Name()),
          fmt::format("ALTER ROLE {} BYPASSRLS; -- as a superuser", facts_.role));
    }
  }

  void Columns() {
    for (const ColumnRule& rule : RulesOf(settings_.columns)) {
      const auto column = facts_.columns.find(*rule.name);
      if (column == facts_.columns.end()) {
        if (!rule.required) continue;
        Add(reason::kChangelogUnusable, fmt::format("{} has no column {}", Name(), *rule.name),
            "add it, or name the column that has its meaning in changelog.columns");
        continue;
      }
      if (std::find(rule.types.begin(), rule.types.end(), column->second) != rule.types.end()) {
        continue;
      }
      Add(reason::kChangelogUnusable,
          fmt::format("column {} of {} is {}; {} is needed", *rule.name, Name(), column->second,
                      rule.wanted),
          *rule.name == settings_.columns.xid
              ? "store pg_current_xact_id() in it, which has 64 bits and is the same within a "
                "savepoint"
              : fmt::format("make it {}", rule.wanted));
    }
  }

  void Sequences() {
    const std::string seq = settings_.columns.seq;
    if (facts_.sequences.empty()) {
      Add(reason::kChangelogUnusable,
          fmt::format("it cannot be seen which sequence column {} of {} is drawn from", seq,
                      Name()),
          fmt::format("ALTER SEQUENCE its_sequence OWNED BY {}.{};", Name(), seq));
    }
    for (const SequenceFacts& sequence : facts_.sequences) {
      if (sequence.cache != 1) {
        Add(reason::kChangelogUnusable,
            fmt::format("sequence {} of {} has CACHE {}: a session that has drawn numbers in "
                        "advance gives a later change of a row a lower one",
                        sequence.name, Name(), sequence.cache),
            fmt::format("ALTER SEQUENCE {} CACHE 1; -- then end the sessions that write",
                        sequence.name));
      }
      if (sequence.increment <= 0 || sequence.cycles) {
        Add(reason::kChangelogUnusable,
            fmt::format("the numbers of sequence {} of {} do not rise", sequence.name, Name()),
            fmt::format("ALTER SEQUENCE {} INCREMENT 1 NO CYCLE;", sequence.name));
      }
    }
  }

  void Indexes() {
    if (!facts_.has_xid_seq_index) {
      Add(reason::kChangelogUnusable,
          fmt::format("{} has no index ({}, {}): each pull would read all of it", Name(),
                      settings_.columns.xid, settings_.columns.seq),
          statements_.CreateIndex());
    } else if (facts_.plan.find("Seq Scan") != std::string::npos) {
      Add(reason::kChangelogUnusable,
          fmt::format("the server does not use the index ({}, {}) of {}: {}", settings_.columns.xid,
                      settings_.columns.seq, Name(), facts_.plan),
          fmt::format("REINDEX TABLE {};", Name()));
    }
    if (!facts_.has_unique_seq) {
      Add(reason::kChangelogUnusable,
          fmt::format("no unique index of {} has column {} alone: two rows may have one number",
                      Name(), settings_.columns.seq),
          statements_.CreateUnique());
    }
  }

  void Strategies() {
    if (!facts_.in_recovery) return;
    if (settings_.strategy == Strategy::kSnapshot) {
      Add(reason::kChangelogUnusable,
          "the server is a standby, whose snapshots do not list the transactions in progress: "
          "strategy snapshot would take them for told",
          "strategy: xid_watermark, or connect to the primary");
    }
    if (settings_.trim) {
      Add(reason::kSourceSetting, "the server is a standby, where nothing can be deleted",
          "trim: false");
    }
  }

  void Triggers() {
    for (const SleepingTrigger& trigger : facts_.triggers) {
      Add(reason::kChangelogUnusable,
          fmt::format(
              "trigger {} of table {} {}", trigger.name, trigger.table,
              trigger.fires_at_origin
                  ? "does not fire for rows that are applied under "
                    "session_replication_role = replica"
                  : "is disabled, or fires for such rows alone: what is written is missing"),
          fmt::format("ALTER TABLE {} ENABLE ALWAYS TRIGGER {};", trigger.table, trigger.name),
          /*warning=*/true);
    }
  }

  void Durability() {
    if (facts_.synchronous_commit != "off") return;
    Add(reason::kSourceSetting,
        "synchronous_commit is off: a crash of the server may take back transactions that were "
        "told",
        "ALTER DATABASE its_name SET synchronous_commit = on; -- for whoever writes",
        /*warning=*/true);
  }

  const TableFacts& facts_;
  const Settings& settings_;
  const Statements statements_;
  std::vector<Lack> found_;
};

// `keys` as the catalog prints them: "2 1".
void NoteIndex(bool is_unique, const std::string& keys, const std::string& xid,
               const std::string& seq, TableFacts* facts) {
  const std::string wanted = xid + " " + seq;
  facts->has_xid_seq_index |= keys == wanted || keys.starts_with(wanted + " ");
  facts->has_unique_seq |= is_unique && keys == seq;
}

absl::Status ReadSequences(Connection* sql, const Statements& statements, absl::Time deadline,
                           TableFacts* facts) {
  const absl::StatusOr<ResultRows> rows = sql->Query(statements.Sequences(), kDoing, deadline);
  if (!rows.ok()) return rows.status();
  for (size_t i = 0; i < rows->rows.size(); ++i) {
    facts->sequences.push_back({.name = rows->Text(i, 0),
                                .cache = rows->Number(i, 1),
                                .increment = std::strtoll(rows->Text(i, 2).c_str(), nullptr, 10),
                                .cycles = rows->True(i, 3)});
  }
  return absl::OkStatus();
}

absl::Status ReadColumns(Connection* sql, const Statements& statements, const Settings& settings,
                         absl::Time deadline, TableFacts* facts) {
  const absl::StatusOr<ResultRows> columns = sql->Query(statements.Columns(), kDoing, deadline);
  if (!columns.ok()) return columns.status();
  std::map<std::string, std::string> numbers;
  for (size_t i = 0; i < columns->rows.size(); ++i) {
    facts->columns[columns->Text(i, 0)] = columns->Text(i, 1);
    numbers[columns->Text(i, 0)] = columns->Text(i, 2);
  }
  const absl::StatusOr<ResultRows> indexes = sql->Query(statements.Indexes(), kDoing, deadline);
  if (!indexes.ok()) return indexes.status();
  for (size_t i = 0; i < indexes->rows.size(); ++i) {
    NoteIndex(indexes->True(i, 0), indexes->Text(i, 1), numbers[settings.columns.xid],
              numbers[settings.columns.seq], facts);
  }
  return absl::OkStatus();
}

absl::Status ReadTriggers(Connection* sql, const Statements& statements, absl::Time deadline,
                          TableFacts* facts) {
  const absl::StatusOr<ResultRows> rows =
      sql->Query(statements.SleepingTriggers(), kDoing, deadline);
  if (!rows.ok()) return rows.status();
  for (size_t i = 0; i < rows->rows.size(); ++i) {
    facts->triggers.push_back({rows->Text(i, 0), rows->Text(i, 1), rows->True(i, 2)});
  }
  return absl::OkStatus();
}

// Only where it can be asked for.
absl::Status ReadPlan(Connection* sql, const Settings& settings, absl::Time deadline,
                      TableFacts* facts) {
  if (!CheckTable(*facts, settings).ok()) return absl::OkStatus();
  const Statements statements(settings, facts->optional(settings));
  absl::Status begun = sql->Query(statements.Begin(), kDoing, deadline).status();
  if (!begun.ok()) return begun;
  for (const std::string& explain : {statements.ExplainList(), statements.ExplainPage()}) {
    const absl::StatusOr<ResultRows> lines = sql->Query(explain, kDoing, deadline);
    if (!lines.ok()) return lines.status();
    for (size_t i = 0; i < lines->rows.size(); ++i) facts->plan += lines->Text(i, 0) + "\n";
  }
  return sql->Query(statements.GiveUp(), kDoing, deadline).status();
}

}  // namespace

OptionalColumns TableFacts::optional(const Settings& settings) const {
  return {.changed_at = columns.contains(settings.columns.changed_at),
          .old_row = columns.contains(settings.columns.old_row)};
}

absl::StatusOr<TableFacts> ReadTableFacts(Connection* sql, const Settings& settings,
                                          bool in_recovery, absl::Time deadline) {
  TableFacts facts;
  facts.in_recovery = in_recovery;
  const Statements statements(settings, {});
  const absl::StatusOr<ResultRows> table = sql->Query(statements.Table(), kDoing, deadline);
  if (!table.ok()) return table.status();
  if (table->empty()) return facts;
  facts.oid = static_cast<uint32_t>(table->Number(0, 0));
  facts.kind = table->Text(0, 1);
  facts.may_use_schema = table->True(0, 2);
  facts.may_select = table->True(0, 3);
  facts.may_delete = table->True(0, 4);
  facts.hides_rows = table->True(0, 5);
  facts.role = table->Text(0, 6);
  facts.synchronous_commit = table->Text(0, 7);
  absl::Status read = ReadColumns(sql, statements, settings, deadline, &facts);
  if (read.ok()) read = ReadSequences(sql, statements, deadline, &facts);
  if (read.ok()) read = ReadTriggers(sql, statements, deadline, &facts);
  if (read.ok()) read = ReadPlan(sql, settings, deadline, &facts);
  if (!read.ok()) return read;
  return facts;
}

std::vector<Lack> LacksOf(const TableFacts& facts, const Settings& settings) {
  return Lacks(facts, settings).Find();
}

absl::Status CheckTable(const TableFacts& facts, const Settings& settings) {
  for (const Lack& lack : LacksOf(facts, settings)) {
    if (lack.warning) continue;
    const auto code = lack.reason == reason::kSourcePrivilege
                          ? absl::StatusCode::kPermissionDenied
                          : absl::StatusCode::kFailedPrecondition;
    return ErrorWithReason(code, lack.reason, fmt::format("{}: {}", lack.message, lack.remedy),
                           {{"table", settings.TableText()}});
  }
  return absl::OkStatus();
}

}  // namespace tidemark::capture::changelog
