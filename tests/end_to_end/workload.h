// Sessions that change the tables of workload_tables.h at random, and what a test has to know of
// them: a moment at which none of them is in a transaction, and which tables had rows moved without
// a message that the feed may not have told yet.
//
// Thread rule: one thread at a time; each session runs on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/end_to_end/workload_tables.h"
#include "tests/testing/live_postgres.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark::testing {

class Workload {
 public:
  // The tables were made in `database`. The sessions rest until AllowTurns. `keyless` as for
  // WorkloadTables.
  Workload(const LivePostgres& postgres, const std::string& database, int sessions, uint64_t seed,
           bool keyless = true);
  ~Workload() { Stop(); }

  // So many more turns (a transaction, or a change of a table's shape) may be taken.
  void AllowTurns(int turns);
  uint64_t turns_allowed();
  uint64_t turns_taken();
  // While it is off, nothing moves rows without a message.
  void AllowShapeChanges(bool allowed);

  // Between the two no session is in a transaction (one may be prepared).
  void HoldBack();
  void LetGo();

  // Names of tables that are not known to be told as they are, as of all statuses that were given
  // here: rows moved, and the feed did not say since that it looked again and follows the table.
  std::vector<std::string> Unsettled();
  void NoteStatus(const v1::FeedStatus& status);

  // A lock that did not come in time, or a deadlock.
  static bool IsLockError(const absl::Status& status);

  // Ends the sessions, and what was prepared.
  void Stop();

  uint64_t committed();
  uint64_t failed();
  // What was done to the shapes, with times and outcomes.
  std::string History();

 private:
  struct Movement {
    int under_way = 0;
    // By the clock of this machine, which is the server's.
    absl::Time last = absl::InfinitePast();
    bool settled = true;
  };

  void Run(int session, uint64_t seed);
  bool TakeTurn();
  void AskForTurn();
  void EndTurn();
  absl::Status Step(PgSession* session, Dice* dice, int number, std::string* prepared);
  absl::Status ChangeRows(PgSession* session, Dice* dice, int number, std::string* prepared);
  absl::Status ChangeShape(PgSession* session, Dice* dice, const ShapeChange& change);
  absl::Status DoShapeChange(PgSession* session, Dice* dice, const ShapeChange& change);

  const LivePostgres& postgres_;
  const std::string database_;
  WorkloadTables tables_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All below are guarded by mutex_.
  uint64_t allowed_ = 0;
  uint64_t asked_for_ = 0;
  uint64_t begun_ = 0;
  uint64_t taken_ = 0;
  int busy_ = 0;
  bool held_back_ = false;
  bool shape_changes_ = true;
  bool stopping_ = false;
  uint64_t committed_ = 0;
  uint64_t failed_ = 0;
  std::vector<Movement> movements_;
  std::string history_;

  std::vector<std::thread> threads_;
};

}  // namespace tidemark::testing
