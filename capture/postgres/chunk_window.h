// What the stream does beside the reading of a chunk of a table, so that a row that was read gives
// way to a change that is newer, or as new, but for values that the change leaves out.
//
//   Open ─ the chunk is read under a snapshot ─ everything that the snapshot sees was streamed: the
//   rows that nobody touched since Open are as they stand there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/postgres/recent_commits.h"
#include "capture/postgres/xid_snapshot.h"

namespace tidemark::capture::postgres {

// Keys that one window remembers at most: beyond them, the chunk is read again.
inline constexpr size_t kTouchedKeysMax = 100'000;

// Pure; owned by one thread.
class ChunkWindow {
 public:
  // A transaction was streamed, whatever its tables.
  void Committed(uint32_t xid) {
    recent_.Add(xid);
    ++commits_;
  }
  // How many there were.
  uint64_t commits() const { return commits_; }

  // Between two transactions: from now on the changes of one table count.
  void Open();
  void Close();
  bool open() const { return open_; }
  // What the snapshot has to see, as far as it is not known that others see it.
  std::vector<uint32_t> streamed_before() const { return recent_.marked(); }

  // A row of the table with this key (see KnownRows::EncodeKey) was changed, and all of it told, or
  // is gone.
  void Touch(std::string_view key);
  // As Touch, by a change that left the values of `columns` out, which count under the schema. They
  // stayed as they were, and what is known of them is of before the chunk, and may be wrong.
  void TouchLeavingOut(std::string_view key, uint64_t schema_id, std::span<const uint32_t> columns);
  // The whole table changed: truncated, another schema.
  void Spoil() { spoiled_ = open_; }

  // False: the chunk that was read under `snapshot` says nothing, and is to be read again. For then
  // a transaction that was streamed before Open is not in it, or too much happened since.
  bool Holds(const XidSnapshot& snapshot);
  // What became of a row since Open.
  struct Touched {
    // The columns that no change of it told, rising: they are still as they were at Open.
    std::vector<uint32_t> left_out;
    // 0: under more than one.
    uint64_t schema_id = 0;
  };
  // Null: nothing.
  const Touched* Find(std::string_view key) const;

 private:
  bool open_ = false;
  bool spoiled_ = false;
  absl::flat_hash_map<std::string, Touched> touched_;
  RecentCommits recent_;
  uint64_t commits_ = 0;
};

}  // namespace tidemark::capture::postgres
