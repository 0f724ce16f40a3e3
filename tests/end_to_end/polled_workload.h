// What applications do to polled tables, at random: clocks that differ by seconds, transactions
// that stay open, stamps that many rows share, rows that go and come back. It stays within what the
// class of a polled feed promises: whoever writes stamps, and no transaction stays open for longer
// than kOpenMax.
//
//   marked   deletes by a column                buried   deletes by a table of tombstones
//   loose    deletes, and changes without a     seqd     a cursor from a sequence with cache
//            stamp: for a scan to find          coarse   stamps of whole seconds, a key of two
//
// Every write of a row has a number of its own (v), larger than those before: by it a row that was
// told is known to be written, and to be newer than what was told before.
//
// Thread rule: one thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/end_to_end/workload_tables.h"
#include "tests/testing/live_postgres.h"

namespace tidemark::testing {

class PolledWorkload {
 public:
  static constexpr std::chrono::milliseconds kOpenMax{1000};
  static constexpr std::chrono::milliseconds kSkewMax{3000};

  // `page_rows`: of the feed; ties are three times as long.
  PolledWorkload(const LivePostgres& postgres, std::string database, uint64_t seed, int page_rows);

  static std::string CreateSql();
  // Entries of `tables` of the configuration.
  static std::vector<std::string> Polled();
  // Names of the tables whose rows polling alone keeps equal; and the one that takes a scan.
  static const std::vector<std::string>& Followed();
  static constexpr char kScanned[] = "loose";
  // What the feed has of a table.
  static std::string Query(const std::string& table);

  // One statement of one session, or the end of its transaction.
  void Step();
  // Ends all transactions.
  void Finish();

  // Numbers of writes that are committed.
  const std::set<int64_t>& committed() const { return committed_; }
  int steps() const { return steps_; }
  // Of a transaction that was committed, from before its beginning.
  std::chrono::milliseconds longest_open() const { return longest_open_; }

 private:
  static constexpr int kSessions = 4;

  struct Writer {
    std::unique_ptr<PgSession> session;
    std::chrono::milliseconds skew{};
    bool open = false;
    // Or when its last statement outside of a transaction began.
    std::chrono::steady_clock::time_point opened;
    std::vector<int64_t> pending;
  };

  void Exec(Writer& writer, const std::string& sql);
  void End(Writer& writer, bool commit);
  void Write(size_t index);
  // Only outside of a transaction: the lock on the newest row would make others wait.
  void Remove(size_t index, const std::string& table);
  // Moment that the writer's clock shows, as SQL.
  std::string Stamp(const Writer& writer, const std::string& table);
  // The first of `count` numbers.
  int64_t Numbers(Writer& writer, int count);
  // A row that is this session's alone.
  int Row(size_t index) { return static_cast<int>(index) + kSessions * dice_.Below(rows_each_); }

  Dice dice_;
  const int tie_rows_;
  const int rows_each_;
  std::array<Writer, kSessions> writers_;
  std::set<int64_t> committed_;
  int64_t last_number_ = 0;
  int steps_ = 0;
  std::chrono::milliseconds longest_open_{};
};

}  // namespace tidemark::testing
