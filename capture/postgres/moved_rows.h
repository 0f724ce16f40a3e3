// Rows that are to be read again by their keys while their table is read. Most of them got another
// key by changes that left values out: what is not read yet may be known wrongly, or not at all,
// and so may what such a row took along to a key that is read already. Others were left out of a
// chunk that did not go together with what the stream told of them.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tidemark::capture::postgres {

// Of one table; beyond them, all of it is read again.
inline constexpr size_t kMovedRowsMax = 100'000;

// Pure; owned by one thread.
class MovedRows {
 public:
  using Table = std::pair<std::string, std::string>;
  // Text of each key column, as PostgreSQL takes it.
  using Key = std::vector<std::string>;

  // The tables that are read in part. What is noted of others is forgotten.
  void Watch(const std::set<Table>& tables);
  // Whether any row is worth looking at.
  bool WatchesAny() const { return !tables_.empty(); }
  bool Watches(const Table& table) const { return tables_.count(table) > 0; }

  // REQUIRES: Watches(table).
  void Add(const Table& table, Key key);
  // As Add, of a row whose key is not known.
  void AddAny(const Table& table);
  // Once for every table that got its first one.
  std::set<Table> TakeNews() { return std::exchange(news_, {}); }

  bool Has(const Table& table) const;
  // Too many of them, or of some the key is not known.
  bool HasTooMany(const Table& table) const;
  // Some of them, at most `keys_max`, which are about to be read.
  std::vector<Key> Next(const Table& table, size_t keys_max);
  // They were read as of Next. One that was added since is kept.
  void Remove(const Table& table, std::span<const Key> keys);

 private:
  struct Moved {
    // Whether it was added since Next gave it out.
    std::map<Key, bool> keys;
    bool too_many = false;
  };

  std::map<Table, Moved> tables_;
  std::set<Table> news_;
};

}  // namespace tidemark::capture::postgres
