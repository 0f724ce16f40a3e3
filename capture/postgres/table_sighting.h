// What the catalog says of the tables of a feed at one moment, beyond what the stream tells: a
// table can be replaced, rewritten, get and lose partitions, or leave the publication without a
// single message.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/publication.h"
#include "proto/table_name.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

struct TableSighting {
  // With the publication's columns and row filter, where it is published.
  SourceTable table;
  v1::PostgresTableFacts facts;
};

struct CatalogSighting {
  bool publication_exists = false;
  // The publication sends every operation, and partitions under the name of their root.
  bool publishes_all = false;
  bool via_root = false;
  // It may be given tables: it is this role's own, and not for all tables or for schemas alone, and
  // the server is no standby.
  bool publication_is_ours = false;
  bool standby = false;
  // By name.
  std::vector<TableSighting> tables;
  // What fits a pattern as well, and cannot be captured.
  std::vector<UnloggedRelation> unlogged;
  // No transaction from it on had begun when all this was so.
  uint64_t xmax = 0;
  // How far the log was flushed just before: what was committed by then is seen.
  Lsn at = 0;
};

// The tables that fit one of `patterns`, as they are together at one moment. After an error the
// session is of no use any more.
absl::StatusOr<CatalogSighting> LookAtTables(Connection* sql, const std::string& publication,
                                             std::span<const TablePattern> patterns,
                                             absl::Time deadline);

// What to do about a table whose rows may have moved.
struct Movement {
  enum class Kind {
    kNone,
    // Its rows are read again, and what differs is told.
    kRead,
    // Its rows are told apart by another key: it is emptied and told anew.
    kReload,
  };
  Kind kind = Kind::kNone;
  // For people: "was replaced by another table of that name".
  std::string cause;
  // Rows that are written by transactions that were open meanwhile may never be streamed: they have
  // to end before the table is read.
  bool waits_for_writers = false;
};

// A value of one type reads the same under the other, by their OIDs. Pure.
bool SaysTheSame(uint32_t type_before, uint32_t type_now);

// Names that are remembered of the columns that a table had; beyond them, every new column counts
// as one that was there before.
inline constexpr int kPastColumnsMax = 1600;

// What `now` does not show by itself: the columns that went since `before`, or earlier. A row that
// was not touched since is still stored with their values. Pure.
void AddPastColumns(const v1::PostgresTableFacts& before, v1::PostgresTableFacts* now);

// Rows of this partition of the table were streamed: where no look saw it, that is noted as what
// was seen, so that the next look finds another thing. False where it is known. Pure.
bool NotePart(uint32_t part_oid, v1::PostgresTableFacts* facts);
// Whether the partitions that a look saw are these, rising. Pure.
bool HasParts(const v1::PostgresTableFacts& facts, std::span<const uint32_t> part_oids);

// Why a table that nobody followed between two looks, neither here nor in the stream, is to be read
// though both looks find the same; empty: it is not. Pure.
std::string AlteredUnseen(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now);

// Between two looks at a table of one name. REQUIRES: `now` is published, and has its past columns.
// Pure.
Movement MovementBetween(const v1::PostgresTableFacts& before, const v1::PostgresTableFacts& now);

}  // namespace tidemark::capture::postgres
