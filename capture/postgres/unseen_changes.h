// What the stream does to a table without a key beside its reading, and the reading's snapshot does
// not see.
//
// Rows that nothing tells apart cannot give way to newer changes one by one, as those of a chunk do
// (ChunkWindow). Such a table is read whole under one snapshot while the stream goes on, and told
// in one made transaction: a truncate, the rows, and behind them the changes that are kept here,
// once more. At the place of the stream where that is told (between two transactions, behind the
// snapshot's fence) it is what the table holds, equal rows counted:
//
// - What the snapshot sees was streamed by then, and is in the rows. So is what a stream that is
//   behind still tells of the time before the look at the catalog that began the reading.
// - What it does not see and was streamed by then came behind Open, since all that came before is
//   seen (RecentCommits): every change of the table in it is kept. What is not in the stream at all
//   ended before the snapshot (ChunkOrder::writers_before).
// - A commit is in the log before snapshots see it, so that T, which is not seen, may stand before
//   U, which is. Then neither went on from what the other one did: whoever meets a row, or a table,
//   that another one changed waits until that one has ended for everybody, so U behind T in this
//   sense would mean that T is seen as well, and T behind U that U is in the log first. So T's
//   changes may follow U's.
// - For the same cause, what a kept change removes is among the rows, or among what was kept before
//   it: who applies the changes one by one finds every row that is to go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/postgres/recent_commits.h"
#include "capture/postgres/relation_cache.h"
#include "capture/postgres/xid_snapshot.h"
#include "capture/transaction_builder.h"
#include "proto/encoded_transaction.h"

namespace tidemark::capture::postgres {

// Changes that are held until the snapshot is known; beyond them, it is taken anew.
inline constexpr size_t kUnseenHeldBytesMax = 16 << 20;
// Kept changes beyond this are handed over in parts.
inline constexpr size_t kUnseenBytesMax = 1 << 20;

// Pure; owned by one thread.
class UnseenChanges {
 public:
  struct Subject {
    uint32_t oid = 0;
    std::string schema;
    std::string table;
    // Under which Streaming hands over what is kept, once that is too large to be held.
    uint64_t handle = 0;
  };

  // Of the stream: every transaction, whatever its tables, in the order of their commits.
  void Began(uint32_t xid);
  // In the transaction that began, a table was announced.
  void Announced(const RelationDescription& description);
  // A change of this table may be one that is kept.
  bool Counts(uint32_t oid) const { return counts_ && oid == subject_.oid; }
  // Where a change of a row of this relation, or of all of them, is to be added once more. Null:
  // nowhere.
  TransactionBuilder* Changes(const Relation& relation);
  // A change that does not read.
  void Unreadable() { spoils_ = "a change of it does not read"; }
  void Committed();
  // Kept changes are to be handed over.
  bool full() const { return snapshot_ && kept_bytes_ > kUnseenBytesMax; }

  // Of the reading, between two transactions. From Open on the table's changes count.
  void Open(Subject subject);
  void Close();
  // What the snapshot has to see, as far as it is not known that others see it.
  std::vector<uint32_t> streamed_before() const { return recent_.marked(); }
  // The snapshot under which it is read. It may be told late.
  void Use(const XidSnapshot& snapshot);
  // Empty while the reading counts; else why it says nothing, and is to begin again.
  const std::string& void_because() const { return void_because_; }

  const Subject& subject() const { return subject_; }
  // Kept changes that were not taken yet. Their sequence counts from 0 over all that is kept.
  std::vector<EncodedRun> Take();
  // Some were taken before.
  bool in_parts() const { return in_parts_; }
  // Of all that is kept: how much, and under which schemas.
  const v1::CommitRecord& record() const { return record_; }

 private:
  // The changes of one transaction.
  struct Held {
    uint32_t xid = 0;
    EncodedTransaction changes;
    std::string spoils;
  };

  void AddRuns(std::vector<EncodedRun> runs);
  void Keep(Held held);
  void Void(std::string because);

  RecentCommits recent_;
  bool open_ = false;
  Subject subject_;
  std::optional<XidSnapshot> snapshot_;
  std::string void_because_;

  // The transaction that began.
  uint32_t xid_ = 0;
  bool counts_ = false;
  TransactionBuilder builder_;
  uint64_t schema_id_ = 0;
  // Why there is no reading beside it, if the snapshot does not see it.
  std::string spoils_;

  // Until the snapshot is known.
  std::vector<Held> held_;
  size_t held_bytes_ = 0;

  std::vector<EncodedRun> kept_;
  size_t kept_bytes_ = 0;
  bool in_parts_ = false;
  v1::CommitRecord record_;
};

}  // namespace tidemark::capture::postgres
