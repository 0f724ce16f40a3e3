// What the server's catalog says of the changelog's table, and the verdict on it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/changelog/settings.h"
#include "capture/changelog/statements.h"
#include "capture/postgres/connection.h"

namespace tidemark::capture::changelog {

struct SequenceFacts {
  std::string name;  // as SQL names it
  uint64_t cache = 1;
  int64_t increment = 1;
  bool cycles = false;
};

// One that does not fire for every row that is written.
struct SleepingTrigger {
  std::string table;  // as SQL names it
  std::string name;
  // But for rows that are applied under session_replication_role = replica.
  bool fires_at_origin = false;
};

struct TableFacts {
  // 0: there is no such table.
  uint32_t oid = 0;
  // Of pg_class.relkind.
  std::string kind;
  // Name to type.
  std::map<std::string, std::string> columns;
  std::vector<SequenceFacts> sequences;
  std::vector<SleepingTrigger> triggers;
  bool has_unique_seq = false;
  bool has_xid_seq_index = false;
  bool may_use_schema = false;
  bool may_select = false;
  bool may_delete = false;
  bool hides_rows = false;
  std::string role;
  std::string synchronous_commit;
  bool in_recovery = false;
  // Empty: not looked at.
  std::string plan;

  OptionalColumns optional(const Settings& settings) const;
};

// Something that keeps the changelog from being read.
struct Lack {
  std::string reason;
  std::string message;
  // SQL, or what to configure.
  std::string remedy;
  // It may be lived with.
  bool warning = false;
};

absl::StatusOr<TableFacts> ReadTableFacts(postgres::Connection* sql, const Settings& settings,
                                          bool in_recovery, absl::Time deadline);

// In the order in which they are to be mended. Pure.
std::vector<Lack> LacksOf(const TableFacts& facts, const Settings& settings);

// The first of them that is no warning, as an error. Pure.
absl::Status CheckTable(const TableFacts& facts, const Settings& settings);

}  // namespace tidemark::capture::changelog
