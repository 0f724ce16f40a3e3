// What the source committed, told by the source itself: a replication slot of the test's own, read
// by SQL with PostgreSQL's test_decoding. Shares no code with the server: another plugin, another
// protocol, another parser.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/testing/pg_session.h"
#include "tests/testing/recorded_stream.h"

namespace tidemark::testing {

// Text as test_decoding prints it. `columns` of a delete are what the source says of the old row:
// its replica identity. An update that changes the key is a delete and an insert, as in a feed.
struct OracleChange {
  std::string op;
  std::string table;  // schema.table, never quoted
  Columns columns;
};

struct OracleTransaction {
  uint64_t end_lsn = 0;  // what the SQL functions report on the COMMIT row (E6)
  std::string xid;
  std::vector<OracleChange> changes;
};

// Names of the key columns by table.
using TableKeys = std::map<std::string, std::vector<std::string>>;

class SqlOracle {
 public:
  // Makes the slot: transactions that commit from now on are seen.
  static absl::StatusOr<std::unique_ptr<SqlOracle>> Create(const std::string& conninfo,
                                                           const std::string& slot);

  // All transactions so far, in commit order, without those that changed nothing. Connects anew
  // when the database was restarted; what it yields twice then counts once.
  absl::StatusOr<std::vector<OracleTransaction>> Transactions();
  absl::Status DropSlot();

 private:
  SqlOracle(std::string conninfo, std::string slot)
      : conninfo_(std::move(conninfo)), slot_(std::move(slot)) {}
  absl::Status Connect();
  absl::Status Read();

  const std::string conninfo_;
  const std::string slot_;
  std::unique_ptr<PgSession> session_;
  std::vector<OracleTransaction> transactions_;
  // The end of the log when they were read: until it moves there are no others, and to read them
  // is to decode all of it.
  std::string read_to_;
};

// Only changes of these tables; transactions that have none are left out.
std::vector<OracleTransaction> OnlyTables(std::vector<OracleTransaction> transactions,
                                          const std::set<std::string>& tables);

// One line of test_decoding that begins with "table ": one change, two when the key changed, or one
// per table for a truncate.
absl::StatusOr<std::vector<OracleChange>> ParseDecodedLine(std::string_view line,
                                                           const TableKeys& keys);
// X/Y.
absl::StatusOr<uint64_t> ParseLsn(std::string_view text);

}  // namespace tidemark::testing
