// Where in a sequence of runs each key was changed last, so that the row as it stands behind them
// can be looked up without holding it in memory. Owned by one thread; pure but for what it is
// given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"
#include "store/row_keys.h"
#include "store/run_walker.h"

namespace tidemark::store {

// Keys held in memory; about 18 MiB.
inline constexpr size_t kIndexKeysMax = 900'000;

// The runs that an index points into, numbered from 0 on by their owner, those of pieces of values
// not counted.
class NumberedRuns {
 public:
  virtual ~NumberedRuns() = default;
  // The bytes of a run (part 0), or of a piece of the values of its only change (part 1, 2, …).
  // Valid until the next call.
  virtual absl::StatusOr<std::string_view> Bytes(uint32_t number, uint32_t part) = 0;
  // Position and first sequence of a run: what the rows say that wrote them.
  virtual std::pair<Position, uint64_t> PlaceOf(uint32_t number) const = 0;
};

// A change of an indexed run: number of the run (32 bits) | ordinal in it.
using PlaceOfChange = uint64_t;

// Keys beyond kIndexKeysMax, by their hash.
class IndexOverflow {
 public:
  using Entry = std::pair<uint64_t, PlaceOfChange>;
  virtual ~IndexOverflow() = default;
  // A later entry replaces an earlier one of the same hash.
  virtual absl::Status Put(const std::vector<Entry>& entries) = 0;
  virtual absl::StatusOr<std::optional<PlaceOfChange>> Get(uint64_t hash) = 0;
};

class ChangeIndex {
 public:
  using Hash = uint64_t (*)(std::string_view);
  enum class Found { kNotChanged, kGone, kRow };

  // Both are lent. Tests give a bound and a hash of their own.
  ChangeIndex(RowKeys* keys, NumberedRuns* runs, size_t keys_max = kIndexKeysMax,
              Hash hash = &HashOf)
      : keys_(*keys), runs_(*runs), keys_max_(keys_max), hash_(hash) {}

  // From now on keys that do not fit into memory go there. REQUIRES: not is_full().
  void UseOverflow(std::unique_ptr<IndexOverflow> overflow) { overflow_ = std::move(overflow); }
  // No more keys fit, and there is no overflow.
  bool is_full() const { return overflow_ == nullptr && places_.size() >= keys_max_; }

  // Takes the run of that number. Numbers only rise, by one.
  absl::Status Add(uint32_t number, std::string_view bytes);

  // What the runs did to the row under a key of the rows: nothing, removed it, or left `row`
  // (row_value.h, its values whole) there.
  absl::StatusOr<Found> Find(std::string_view prefix, std::string_view key, std::string* row);

  void Clear();

 private:
  static uint64_t HashOf(std::string_view key);

  absl::Status Put(uint64_t hash, PlaceOfChange place);
  absl::StatusOr<std::optional<PlaceOfChange>> PlaceOf(uint64_t hash);
  // The change at `place`, if it is one of that key; nullopt when another key has the same hash.
  absl::StatusOr<std::optional<Found>> RowAt(PlaceOfChange place, std::string_view key,
                                             std::string* row);
  absl::StatusOr<Found> ScanBack(std::string_view key, PlaceOfChange oldest, std::string* row);
  absl::StatusOr<bool> IsOfKey(const ChangeView& change, std::string_view key);
  absl::Status AppendWholeRow(uint32_t number, const ChangeView& change, std::string* row);

  RowKeys& keys_;
  NumberedRuns& runs_;
  const size_t keys_max_;
  const Hash hash_;
  absl::flat_hash_map<uint64_t, PlaceOfChange> places_;
  std::unique_ptr<IndexOverflow> overflow_;
  bool overflowed_ = false;
  // By prefix of the table: behind this change, what was there before is gone.
  absl::flat_hash_map<std::string, PlaceOfChange> truncated_;
  uint32_t next_number_ = 0;
  // Scratch.
  RunWalker walker_;
  std::string key_;
};

}  // namespace tidemark::store
