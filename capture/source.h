// What every source is to the server: something that is opened at a checkpoint, read, and told what
// is durable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/known_rows.h"
#include "capture/table_order.h"
#include "capture/verification.h"
#include "proto/encoded_transaction.h"
#include "proto/position.h"
#include "proto/table_name.h"
#include "tidemark/v1/admin.pb.h"
#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/feed.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture {

// A schema that later runs name. Comes before the first run that uses it; may come again.
struct SchemaSeen {
  v1::TableSchema schema;
};
// A whole transaction, small enough to be held in memory.
struct TransactionRead {
  EncodedTransaction transaction;
};
// A piece of a transaction whose end is not known yet. Handles are unique while the source is open.
struct LargePart {
  uint64_t handle = 0;
  std::vector<EncodedRun> runs;
};
// The transaction that the parts of `handle` belong to is committed here. record.changes counts all
// its changes.
struct LargeCommitted {
  uint64_t handle = 0;
  Position position;
  v1::CommitRecord record;
};
// The parts of `handle` never were.
struct LargeAborted {
  uint64_t handle = 0;
};
// The parts of `tail`, which never commits itself, belong to `handle`: they follow behind its
// parts, whose sequence numbers are those below `first_sequence`. None of them has gaps.
struct LargeJoined {
  uint64_t handle = 0;
  uint64_t tail = 0;
  uint64_t first_sequence = 0;
};
// Rows of the initial snapshot for tables whose rows are kept: runs of OP_READ changes.
struct SnapshotRows {
  std::vector<EncodedRun> runs;
};
// The initial snapshot is whole: its rows are those of the boundary `position`, behind which the
// log begins.
struct SnapshotWhole {
  Position position;
};

using SourceEvent = std::variant<SchemaSeen, TransactionRead, LargePart, LargeCommitted,
                                 LargeAborted, LargeJoined, SnapshotRows, SnapshotWhole>;

// What one Read yields, in order. `checkpoint` belongs to all of it and must become durable in the
// same atomic step; it is absent when nothing was finished. An empty batch means that the deadline
// passed, or that nothing of what came is to be kept.
struct CaptureBatch {
  std::vector<SourceEvent> events;
  std::optional<v1::Checkpoint> checkpoint;
  // With a checkpoint: tables of which something else is to be remembered from now on.
  std::vector<v1::TableState> table_states;
  // It holds transactions that Tidemark made, which cannot be read again: they are fsynced before
  // they are shown.
  bool made = false;
  // With a checkpoint: what an operator is to know of it. For the event log, once it is durable.
  std::string notice;
  // With a checkpoint, and alone: a break was healed. The feed's next generation begins at the
  // checkpoint, behind this.
  std::optional<v1::GapRecord> gap;
  // Tables (schema, table) that a made transaction in it empties, and whose rows all follow: in it
  // and in later ones.
  std::vector<std::pair<std::string, std::string>> emptied;
  // With a checkpoint: the point that StopAt named is reached. Every transaction at or before this
  // bound was handed over, none behind it, and nothing follows. The checkpoint may lie before the
  // bound: it is where capture would go on.
  std::optional<Position> finished;
};

// Where a source's log ended when it was asked: all that was durable there.
struct LogEnd {
  Position position;
  // The source's clock, before the position was looked up.
  absl::Time clock;
  // What has to be stored and synced before anybody relies on the end: without it, what a later
  // connection tells up to there may be other transactions. Absent where the position alone says
  // it.
  std::optional<v1::Checkpoint> checkpoint = std::nullopt;
};

// Where capture is to end; whichever comes first, and neither: never.
struct StopPoint {
  // Behind every transaction at or before it.
  std::optional<Position> bound;
  // Before the first transaction that was committed later.
  std::optional<absl::Time> time;

  friend bool operator==(const StopPoint&, const StopPoint&) = default;
};

// What a reader of one table should know.
struct TableNote {
  std::string schema_name;
  std::string table_name;
  std::string text;
};

// What became of the objects that a feed used at its source, for people.
struct DropOutcome {
  std::vector<std::string> dropped;
  // Each with the statement that drops it.
  std::vector<std::string> left;
};

// What a source is and promises, for DescribeFeed.
struct SourceDescription {
  std::string engine;
  v1::CompletenessClass completeness = v1::COMPLETENESS_CLASS_UNSPECIFIED;
  // Publishing may run ahead of the fsync: the source yields again, byte for byte, what was not
  // confirmed.
  bool replays_exactly = false;
  // What it does not promise, as sentences for people: of all tables, and of single ones.
  std::vector<std::string> notes;
  std::vector<TableNote> table_notes;
};

// Thread rule: one thread calls Open, Read, Confirm, Close and what belongs to bounds; Interrupt,
// FillStatus, Describe, CheckBounded and the native forms are safe from any thread. Errors carry a
// reason of proto/reason.h; IsRetried tells those that may pass from those that need a person.
// After an error the source is closed, and may be opened again with the durable checkpoint.
class Source {
 public:
  virtual ~Source() = default;

  // Once, before the first Open: where the current rows of the feed can be looked up. Lent.
  virtual void UseKnownRows(KnownRows*) {}

  // Connects and proves that the source goes on exactly behind `checkpoint`. A checkpoint without a
  // whole snapshot starts one: the first batch then carries a checkpoint in phase PREPARING, and
  // only its Confirm lets the source make or replace its objects. One with a break that is to be
  // healed (BreakRecord) makes the source go on where it can, in the next generation: the batch
  // with CaptureBatch::gap comes before anything of that, and after it the source is of that
  // generation. One with a break that is not to be healed is refused with its reason.
  virtual absl::Status Open(const v1::Checkpoint& checkpoint, uint32_t generation) = 0;

  // Waits until something arrived or `deadline` passed, drains what is there up to a bound in
  // bytes, and returns it.
  virtual absl::StatusOr<CaptureBatch> Read(absl::Time deadline) = 0;

  // Everything up to `durable` is fsynced here. Tells the source when that is due.
  virtual absl::Status Confirm(const Position& durable) = 0;

  virtual void Close() = 0;

  // While closed, by the thread of Open. The feed is dropped: drops what was made for it at the
  // source (as `checkpoint`, its last one, tells), and nothing that somebody else made. `decided`
  // is called when it is known that all of that can be dropped, and before anything is; its error
  // ends the call. After an error behind it, the same call may be made again.
  virtual absl::StatusOr<DropOutcome> DropOwned(const v1::Checkpoint& checkpoint,
                                                const std::function<absl::Status()>& decided);

  // Bounds. They belong to the same thread, between two Reads.

  // Sets where capture ends, for this connection and later ones. May be called while closed.
  // BOUND_BEFORE_START when it handed over more than that; a source for which bounds are not proved
  // says so here or when it is opened, as it does for a bound that lies before the snapshot.
  virtual absl::Status StopAt(const StopPoint& point) = 0;
  // Where the source's log ends now; nothing while it cannot be asked, and not before the snapshot
  // is whole. Writes nothing at the source.
  virtual std::optional<LogEnd> SampleEnd() = 0;
  // Somebody waits until everything up to `upto` is proved (nullopt: nobody does): the source is
  // asked, again and again if need be but not too often, and what it proves comes at once.
  virtual void Prove(const std::optional<Position>& upto) = 0;

  // Before every Open: what was remembered of the tables, as it is durable.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): to be kept by those that override it.
  virtual void Remember(std::vector<v1::TableState> /*states*/) {}
  // Safe from any thread; returns at once. The order is taken by a later Read. FEATURE_UNSUPPORTED
  // where a source has no such thing, SOURCE_UNREACHABLE while it does not stream.
  virtual absl::Status OrderTable(TableOrder order);
  // Safe from any thread; returns at once. The configuration names these tables from now on, as if
  // the source had been made with it: taken by a later Read or Open. Orders for single tables
  // stand.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): as Remember.
  virtual void UseTables(std::vector<TablePattern> /*tables*/) {}
  // As OrderTable. Compares known rows with the source, beside the stream and chunk by chunk, until
  // the order's sink wants no more. VERIFICATION_RUNNING while another one is.
  virtual absl::Status Verify(VerifyOrder order);

  // Makes a Read that only waits for the source return soon; disturbs nothing else.
  virtual void Nudge() { Interrupt(); }
  // Makes a Read (or Open) in progress return soon, whatever it is doing; what it did not finish
  // may be an error then.
  virtual void Interrupt() = 0;

  // Sets source_state, detail, lag, slot and snapshot from memory; never waits.
  virtual void FillStatus(v1::FeedStatus* status) const = 0;
  virtual SourceDescription Describe() const = 0;

  // Whether a bounded read is proved to be exact, as far as `checkpoint` tells; else
  // FEATURE_UNSUPPORTED with the cause.
  virtual absl::Status CheckBounded(const v1::Checkpoint& checkpoint) const = 0;

  // The engine's own form of a position, for people.
  virtual std::string NativeText(const Position& position) const = 0;
  // InvalidArgument (REQUEST_INVALID) with the accepted form.
  virtual absl::StatusOr<Position> ParseNative(std::string_view text,
                                               uint32_t generation) const = 0;
};

// True for errors that may pass by themselves (unreachable, slot in use, password being rotated,
// …).
bool IsRetried(const absl::Status& status);

}  // namespace tidemark::capture
