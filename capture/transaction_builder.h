// Turns the changes of one transaction into the runs in which they are stored and sent. The one
// component that stamps __seq, for every engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/encoded_transaction.h"
#include "proto/position.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture {

// Size at which a run of changes ends. A larger change is alone in its run.
inline constexpr size_t kRunTargetBytes = 64 << 10;
// A serialized Value beyond this is sent in parts; so are the largest values of a change whose sum
// passes kChangeBytesMax, until the rest fits.
inline constexpr size_t kValueBytesMax = 1 << 20;
inline constexpr size_t kChangeBytesMax = 1 << 20;
// Bytes of a value in one part.
inline constexpr size_t kPartBytesMax = 1 << 20;
// A transaction beyond this is handed over as LargePart events, and not held in memory.
inline constexpr size_t kTransactionBytesMax = 1 << 20;
// No message, ever, is larger.
inline constexpr size_t kMessageBytesMax = 7 << 19;
// What stands around a change or a part in its run and in the messages that carry it: header,
// schema ids, position, cursor.
inline constexpr size_t kFramingBytesMax = 64 << 10;
static_assert(kRunTargetBytes <= kChangeBytesMax);
static_assert(kChangeBytesMax + kFramingBytesMax <= kMessageBytesMax);
static_assert(kPartBytesMax + kFramingBytesMax <= kMessageBytesMax);

// The images of one change: each a sequence of Values in wire form, one per column (key: one per
// key column), written with the tags kAfter, kBefore and kKey of value_writer.h.
struct ChangeImages {
  std::string_view after;
  std::string_view before;
  std::string_view key;
  // One half of a change of the key, where the halves come one by one.
  bool key_change = false;
  // EncodedRun::has_gaps.
  bool has_gaps = false;
};

// Begin, then changes in log order, then Finish; Begin again at any time forgets what was there.
// What runs hold depends on the changes alone, never on when TakeFullRuns is called, so that a
// re-capture gives equal bytes. Also for snapshot rows (OP_READ): their runs are those of one
// endless transaction.
//
// Thread rule: one thread at a time. Views are copied before a call returns. Nothing here fails.
class TransactionBuilder {
 public:
  void Begin();

  // One change at the next sequence. `schema_id` names the table and its schema
  // (proto/schema_id.h).
  void AddChange(v1::Op op, uint64_t schema_id, const ChangeImages& images);
  // An update that changes the key: the delete of the old key at n, with `old_row` (tags kBefore)
  // where the source says it, and the insert of the new row at n + 1; both flagged key_change. An
  // absent value of `new_row` is the old key's.
  void AddKeyChange(uint64_t schema_id, std::string_view old_key, std::string_view old_row,
                    std::string_view new_row, bool has_gaps = false);
  // A table gets another schema inside the transaction: the next change begins a run, so that no
  // run holds two schemas of one table.
  void CutRun() { CloseRun(); }
  // The same where the open run has changes under the table's schema of before: whether it has is
  // of this transaction alone, so that a re-capture, which knows no schema of before, cuts alike.
  void CutRunOf(uint64_t schema_before);
  // Changes that the source decoded and that are not captured: they count, and are not kept.
  void SkipChanges(uint64_t changes) { next_sequence_ += changes; }

  // Number of changes since Begin, skipped ones included.
  uint64_t changes() const { return next_sequence_; }
  // Bytes of the runs since Begin, those that were taken included.
  uint64_t bytes() const { return closed_bytes_ + open_bytes_.size(); }
  // From now on the runs are to be taken as they become full, and handed over as LargePart.
  bool PassesBound() const { return bytes() > kTransactionBytesMax; }

  // The runs that are full and were not taken yet, in order. Empty while the first one fills.
  std::vector<EncodedRun> TakeFullRuns();
  // Ends the transaction: the runs that were not taken, and the record, in which changes,
  // schema_ids and bytes are set here; the other members are the source's.
  EncodedTransaction Finish(const Position& position, v1::CommitRecord record);

 private:
  // Where a schema stands in the open run.
  struct SchemaUse {
    uint64_t run = 0;
    uint32_t index = 0;
  };

  void AddInParts(v1::Op op, uint64_t schema_id, const ChangeImages& images);
  uint32_t TableIndex(uint64_t schema_id);
  void CloseRun();
  void Keep(EncodedRun run);

  uint64_t next_sequence_ = 0;
  uint64_t closed_bytes_ = 0;
  std::vector<EncodedRun> full_runs_;
  absl::flat_hash_map<uint64_t, SchemaUse> schemas_;
  std::vector<uint64_t> commit_schema_ids_;  // in order of first use

  // The open run.
  uint64_t run_number_ = 1;
  uint64_t first_sequence_ = 0;
  uint32_t open_changes_ = 0;
  bool open_has_gaps_ = false;
  std::vector<uint64_t> run_schema_ids_;
  std::string open_bytes_;  // its changes; the header goes before them when it ends
  uint64_t last_schema_id_ = 0;
  uint32_t last_table_ = 0;
};

}  // namespace tidemark::capture
