// One table in one poll: which parts of it are read, what of that is told, and where its bound
// stands afterwards.
//
//   Begin ─ NULL cursors ─ poison ─ the window from (bound - overlap) to the fence ─ done
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_settings.h"
#include "capture/poll/row_comparison.h"
#include "capture/transaction_builder.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::poll {

// Rows without a cursor are counted up to this.
inline constexpr uint64_t kNullCountMax = 10'000;
// Keys of poison that are named.
inline constexpr int kPoisonKeysMax = 5;

CursorPlace BoundOf(const v1::PolledTableState& state);
CursorPlace TombstoneBoundOf(const v1::PolledTableState& state);
void SetBound(const CursorPlace& place, v1::PolledTableState* state);
void SetTombstoneBound(const CursorPlace& place, v1::PolledTableState* state);

// CURSOR_NULL: why a table is not polled where so many of its rows have no cursor, counted up to
// kNullCountMax. Pure.
absl::Status NullCursorRefusal(const TableSettings& settings, uint64_t count);

// Adds what is told to a transaction.
class ChangeSink {
 public:
  // `wants_before`: current rows are to tell the row before each change.
  ChangeSink(TransactionBuilder* builder, bool wants_before)
      : builder_(*builder), wants_before_(wants_before) {}

  void Add(const v1::TableSchema& schema, ToldAs told_as, const PolledRow& row);
  void AddDelete(const v1::TableSchema& schema, std::string_view key_image);

 private:
  TransactionBuilder& builder_;
  const bool wants_before_;
};

// Thread rule: one thread at a time. What is lent outlives it. `state` is changed as the table is
// read, and is worth something only once the table is done.
class TablePoll {
 public:
  struct Lent {
    const PollSettings* settings = nullptr;
    PollEngine* engine = nullptr;
    RowComparison* comparison = nullptr;
    v1::PolledTableState* state = nullptr;
  };

  TablePoll(const Lent& lent, size_t table) : lent_(lent), table_(table) {}

  // Errors of the table: those of PollEngine::BeginTable, CURSOR_NULL, SOURCE_REWOUND and
  // IDENTITY_CHANGED.
  absl::Status Begin();
  const PolledShape& shape() const { return window_.shape; }
  // Reads a page, and adds what is told to `sink`. True: the table is done.
  absl::StatusOr<bool> Step(ChangeSink* sink);

  uint64_t rows_read() const { return rows_read_; }

 private:
  const TableSettings& settings() const { return lent_.settings->tables[table_]; }
  absl::Status CheckIdentity();
  absl::Status GoBack();
  absl::Status LookForNulls();
  void NoteShape();
  absl::Status Tell(const PolledRow& row, ChangeSink* sink);
  void EndPart();

  const Lent lent_;
  const size_t table_;
  TableWindow window_;
  std::deque<PageOrder::Part> parts_;
  CursorPlace after_;
  CursorPlace after_tombstone_;
  bool rose_ = false;  // after_ is above the bound
  bool tombstones_rose_ = false;
  uint64_t rows_read_ = 0;
  // The last key whose delete was told. Tombstones of one key and stamp follow each other; of all
  // others the youngest tells.
  std::optional<std::string> deleted_;
};

}  // namespace tidemark::capture::poll
