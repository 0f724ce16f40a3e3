// Six tables, and what applications do to them, as random SQL: rows, keys, values out of line, and
// the shape of the tables themselves. Remembers how the tables look, so that most of it succeeds.
//
// Thread rule: safe from any thread; each session draws from dice of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tidemark::testing {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  // 0 to bound - 1.
  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  bool OneIn(int chance) { return Below(chance) == 0; }
  template <class List>
  auto Pick(const List& list) {
    return *std::next(list.begin(), Below(static_cast<int>(list.size())));
  }

 private:
  std::mt19937_64 random_;
};

struct WorkloadTable {
  enum class Kind { kNumber, kPair, kTyped, kPartitioned, kKeyless };
  std::string name;
  Kind kind = Kind::kNumber;
  bool full_identity = false;
  bool n_is_bigint = false;
  // Columns that come and go: name and type.
  std::vector<std::pair<std::string, std::string>> extras;
  // Names that columns had once: rows that were not touched since are known with their values.
  std::set<std::string> past_extras;
  // Of a partitioned table: the keys of its partitions, and of tables that were partitions.
  std::set<int> attached;
  std::set<int> detached;
  // A session is about to change all that.
  bool changing = false;
};

// A change of how a table looks.
struct ShapeChange {
  size_t table = 0;
  std::string what;  // for people
  std::vector<std::string> statements;
  // One transaction; else one each.
  bool together = true;
  // Rows change at the source without a message.
  bool moves_rows = false;
  std::function<void(WorkloadTable*)> apply;
};

class WorkloadTables {
 public:
  // In the order of the tables' numbers.
  static const std::vector<std::string>& Names();
  static std::string CreateSql();

  // Without `keyless`, nothing is done to the table that has no key.
  explicit WorkloadTables(bool keyless = true);

  // Changes rows of some table; of `table` when it is given.
  std::string RowStatement(Dice* dice, int table = -1);
  // What has statements is to be given back to End, whatever came of it; nobody else changes the
  // shape of that table meanwhile.
  ShapeChange BeginShapeChange(Dice* dice);
  void EndShapeChange(const ShapeChange& change, bool done);

 private:
  mutable std::mutex mutex_;
  std::vector<WorkloadTable> tables_;  // guarded by mutex_
  int labels_ = 2;                     // guarded by mutex_: of the enum
};

}  // namespace tidemark::testing
