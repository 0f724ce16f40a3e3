// Everything in polling that depends on the engine of the database: how a cursor and a key are
// compared, the clock, the snapshot, who writes, what a table looks like and lacks, and rows as
// text.
//
//   Open ─ BeginPoll ─┬─ BeginTable ─ FindTop, ReadPage, … ─┐ (table by table, or back to one)
//                     └──────────────◀─────────────────────┘─ EndPoll ─ BeginPoll …
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/source_factory.h"
#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::poll {

// A place in the order of a table: a cursor and the key beside it, as text of the source, which
// alone compares it. An empty cursor: before everything.
struct CursorPlace {
  std::string cursor;
  std::vector<std::string> key;

  bool empty() const { return cursor.empty(); }
  friend bool operator==(const CursorPlace&, const CursorPlace&) = default;
};

enum class CursorKind { kTime, kNumber };

// What a table looks like under the snapshot of a poll.
struct PolledShape {
  v1::TableSchema schema;
  uint32_t table_oid = 0;
  std::string cursor_type;
  CursorKind cursor_kind = CursorKind::kTime;
  bool cursor_nullable = true;
  // Values of the cursor may be infinite, or not a number.
  bool has_poison = false;
  std::vector<std::string> key_columns;
  uint64_t rows_estimated = 0;
};

// When a poll began, by the source.
struct PollMoment {
  // Of the snapshot or shortly before it, by the source's clock; never later.
  absl::Time clock;
  bool in_recovery = false;
  // Of a standby that has not replayed all that it received: how far behind it is.
  absl::Duration replay_lag;
  // How long the oldest open writer has been there. Absent where the source cannot tell.
  std::optional<absl::Duration> oldest_writer;
  // For people: who that is. Empty where nobody writes.
  std::string writer;
  // What it sees, where the source says so: PostgreSQL's pg_current_snapshot().
  std::string snapshot;
};

// Where a table is read from and to, in one poll. Chosen by the engine from the settings, the
// bounds and the clock.
struct TableWindow {
  PolledShape shape;
  // Whether anything was read before: else the window begins before everything.
  bool bounded = false;
  // No row is as high as what would be read again: the source holds an older state than was read.
  bool rewound = false;
  // For people: the highest cursor that is no poison.
  std::string highest;
};

struct PolledRow {
  // An entry of the tombstone table, which has no image.
  bool tombstone = false;
  // An after-image, as ChangeImages takes it.
  std::string after;
  // As ChangeImages::key.
  std::string key_image;
  std::vector<std::string> key;
  // Nothing: NULL.
  std::optional<std::string> cursor;
  // At or below the bound that the poll began with.
  bool below_bound = false;
  // At or above the fence: a later poll tells it.
  bool waits = false;
  bool poison = false;
  // Of a row: marked as deleted, or a tombstone that is due is younger. Of a tombstone: a row with
  // that key is there and as young.
  bool overruled = false;
  // Of what tells a delete: a younger tombstone with that key, as text, is in the same window, and
  // the delete is left to it.
  bool left_to_younger = false;
};

struct PageOrder {
  enum class Part {
    // From the window's beginning to its fence, by (cursor, key); tombstones among the rows.
    kWindow,
    // Rows whose cursor is no moment, or too far in the future; the low ones are apart.
    kPoisonLow,
    kPoisonHigh,
    kNulls,
    // Every row, by key.
    kByKey,
    // Those of `keys` that are there.
    kKeys,
    // The same without what they hold: key and key_image alone, as of a tombstone.
    kKeysAlone,
  };
  Part part = Part::kWindow;
  // Behind these. kNulls and kByKey use the key alone.
  CursorPlace after;
  CursorPlace after_tombstone;
  std::vector<std::vector<std::string>> keys;
  uint32_t rows_max = 1000;
};

struct RowPage {
  std::vector<PolledRow> rows;
  // Nothing lies behind the rows.
  bool at_end = false;
};

// Thread rule: one thread at a time, but for Interrupt. Errors carry a reason. One that `OfTable`
// says yes to concerns the table of the call alone: it is out for this poll, the transaction goes
// on. After any other the engine is to be closed. Every statement waits at most for the silence
// timeout of the settings. Nothing here assigns a transaction id at the source.
class PollEngine {
 public:
  virtual ~PollEngine() = default;

  // Everything that the source lacks, in the order in which it is to be mended; one kOk when there
  // is nothing. On a connection of its own, open or not; waits at most a few times kConnectTimeout.
  virtual std::vector<Finding> Check() const = 0;

  // Connects. SOURCE_REPLACED when `checkpoint` is of another cluster or database.
  virtual absl::Status Open(const v1::PollCheckpoint& checkpoint) = 0;
  virtual void Close() = 0;
  virtual bool is_open() const = 0;
  // Which cluster and database it is.
  virtual void FillIdentity(v1::PollCheckpoint* checkpoint) const = 0;

  // Between two polls. Without a fence the windows reach up to where poison begins.
  virtual void SetFenced(bool /*fenced*/) {}
  // One read-only snapshot for everything up to EndPoll.
  virtual absl::StatusOr<PollMoment> BeginPoll() = 0;
  virtual absl::Status EndPoll() = 0;
  // The source's clock (a standby's: that of what it has replayed), in a poll or between two.
  virtual absl::StatusOr<absl::Time> Clock() = 0;

  // Looks at the table numbered so in the settings, under the snapshot. Refuses it with a reason:
  // SOURCE_TABLE_MISSING, SOURCE_PRIVILEGE, TABLE_UNREADABLE, CURSOR_COLUMN_UNUSABLE,
  // CURSOR_INDEX_MISSING, TABLE_BUSY (locked: look again soon).
  virtual absl::StatusOr<TableWindow> BeginTable(size_t table, const CursorPlace& bound,
                                                 const CursorPlace& tombstone_bound) = 0;
  // The statements that follow are of this table, for which BeginTable succeeded in this poll.
  virtual absl::Status ReturnToTable(size_t table) = 0;
  // The highest place below the fence; an empty one: none. Of the rows, or of the tombstones.
  virtual absl::StatusOr<CursorPlace> FindTop(size_t table, bool tombstones) = 0;
  // At most `count_max`.
  virtual absl::StatusOr<uint64_t> CountNulls(size_t table, uint64_t count_max) = 0;
  virtual absl::StatusOr<RowPage> ReadPage(size_t table, const PageOrder& order) = 0;
  virtual bool OfTable(const absl::Status& status) const = 0;
  // The source gave the snapshot up, by a conflict with what it replays: EndPoll, and begin again.
  virtual bool Conflicted(const absl::Status& status) const = 0;

  // A stored value as text that the source takes for one of its type.
  virtual std::string KeyText(const v1::Value& value) const = 0;

  // Makes a call in progress, or the next one, fail soon. Safe from any thread.
  virtual void Interrupt() = 0;
  // Takes an interruption back that met no call.
  virtual void ConsumeInterrupt() = 0;
};

}  // namespace tidemark::capture::poll
