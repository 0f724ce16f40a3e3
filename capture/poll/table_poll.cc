#include "capture/poll/table_poll.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "capture/row_image.h"
#include "proto/reason.h"

namespace tidemark::capture::poll {
namespace {

using Part = PageOrder::Part;

absl::Status Refused(std::string_view reason, const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason, message);
}

template <class Texts>
CursorPlace PlaceOf(const std::string& cursor, const Texts& key) {
  return {.cursor = cursor, .key = {key.begin(), key.end()}};
}

CursorPlace PlaceOf(const PolledRow& row) {
  return {.cursor = row.cursor.value_or(""), .key = row.key};
}

}  // namespace

CursorPlace BoundOf(const v1::PolledTableState& state) {
  return PlaceOf(state.bound_cursor(), state.bound_key());
}

CursorPlace TombstoneBoundOf(const v1::PolledTableState& state) {
  return PlaceOf(state.tombstone_cursor(), state.tombstone_key());
}

void SetBound(const CursorPlace& place, v1::PolledTableState* state) {
  state->set_bound_cursor(place.cursor);
  state->mutable_bound_key()->Assign(place.key.begin(), place.key.end());
}

void SetTombstoneBound(const CursorPlace& place, v1::PolledTableState* state) {
  state->set_tombstone_cursor(place.cursor);
  state->mutable_tombstone_key()->Assign(place.key.begin(), place.key.end());
}

absl::Status NullCursorRefusal(const TableSettings& settings, uint64_t count) {
  return Refused(
      reason::kCursorNull,
      fmt::format(
          "{}{} rows of table {} have no {}, so that no poll would show what becomes of them: "
          "fill the column and make it NOT NULL, or set null_cursor of the table to include "
          "(all of them are read each time) or exclude",
          count < kNullCountMax ? "" : "at least ", count, settings.Text(), settings.cursor));
}

void ChangeSink::Add(const v1::TableSchema& schema, ToldAs told_as, const PolledRow& row) {
  switch (told_as) {
    case ToldAs::kNothing:
      return;
    case ToldAs::kInsert:
      builder_.AddChange(v1::OP_INSERT, schema.schema_id(), {.after = row.after});
      return;
    case ToldAs::kUpdate:
      builder_.AddChange(v1::OP_UPDATE, schema.schema_id(),
                         {.after = row.after, .has_gaps = wants_before_});
      return;
    case ToldAs::kDelete:
      AddDelete(schema, row.key_image);
      return;
  }
}

void ChangeSink::AddDelete(const v1::TableSchema& schema, std::string_view key_image) {
  builder_.AddChange(v1::OP_DELETE, schema.schema_id(),
                     {.key = key_image, .has_gaps = wants_before_});
}

absl::Status TablePoll::CheckIdentity() {
  const v1::PolledTableState& state = *lent_.state;
  const std::vector<std::string> before(state.key_columns().begin(), state.key_columns().end());
  if (before.empty() || before == window_.shape.key_columns) return absl::OkStatus();
  return Refused(
      reason::kIdentityChanged,
      fmt::format("the rows of table {} are known by ({}), and its key is ({}) now; give "
                  "it a unique index on those columns again, or drop the feed and begin "
                  "anew",
                  settings().Text(), fmt::join(before, ", "),
                  fmt::join(window_.shape.key_columns, ", ")));
}

absl::Status TablePoll::Begin() {
  v1::PolledTableState& state = *lent_.state;
  if (!state.cursor_column().empty() && state.cursor_column() != settings().cursor) {
    // A bound says nothing of another column: everything is looked at again.
    SetBound({}, &state);
    state.clear_cursor_type();
  }
  absl::StatusOr<TableWindow> window =
      lent_.engine->BeginTable(table_, BoundOf(state), TombstoneBoundOf(state));
  if (!window.ok()) return window.status();
  window_ = *std::move(window);
  if (absl::Status identity = CheckIdentity(); !identity.ok()) return identity;
  NoteShape();
  if (window_.rewound && !(state.scan().running() && state.scan().ordered())) {
    return Refused(
        reason::kSourceRewound,
        fmt::format(
            "table {} was read up to {} = {}, and now its highest is {}, which is below all "
            "that is read again: an older state was restored, or a sequence was set back. "
            "Have every row compared, after which polling goes on from what is there: "
            "tidemark table read FEED {}; or, where the feed has stopped, tidemark recover",
            settings().Text(), settings().cursor, state.bound_cursor(), window_.highest,
            settings().Text()));
  }
  if (window_.rewound) {
    if (absl::Status back = GoBack(); !back.ok()) return back;
  }
  if (absl::Status nulls = LookForNulls(); !nulls.ok()) return nulls;
  state.set_poison_rows(0);
  state.clear_poison_keys();
  if (window_.shape.has_poison) {
    parts_.push_back(Part::kPoisonLow);
    parts_.push_back(Part::kPoisonHigh);
  }
  parts_.push_back(Part::kWindow);
  return absl::OkStatus();
}

// All rows are being compared, and what comes meanwhile is polled from what is there.
absl::Status TablePoll::GoBack() {
  absl::StatusOr<CursorPlace> top = lent_.engine->FindTop(table_, /*tombstones=*/false);
  if (!top.ok()) return top.status();
  SetBound(*top, lent_.state);
  absl::StatusOr<TableWindow> window =
      lent_.engine->BeginTable(table_, *top, TombstoneBoundOf(*lent_.state));
  if (!window.ok()) return window.status();
  window_ = *std::move(window);
  return absl::OkStatus();
}

void TablePoll::NoteShape() {
  v1::PolledTableState& state = *lent_.state;
  const PolledShape& shape = window_.shape;
  const bool replaced = state.table_oid() != 0 && state.table_oid() != shape.table_oid;
  // Whatever is in the one that took its place.
  if (replaced && !state.scan().running()) {
    state.mutable_scan()->set_running(true);
    state.mutable_scan()->set_ordered(true);
  }
  state.set_table_oid(shape.table_oid);
  state.set_cursor_column(settings().cursor);
  state.set_cursor_type(shape.cursor_type);
  state.mutable_key_columns()->Assign(shape.key_columns.begin(), shape.key_columns.end());
}

absl::Status TablePoll::LookForNulls() {
  lent_.state->set_null_cursors(0);
  if (!window_.shape.cursor_nullable) return absl::OkStatus();
  if (settings().null_cursors == NullCursors::kInclude) {
    parts_.push_back(Part::kNulls);
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> count = lent_.engine->CountNulls(table_, kNullCountMax);
  if (!count.ok()) return count.status();
  lent_.state->set_null_cursors(*count);
  if (*count == 0 || settings().null_cursors == NullCursors::kExclude) return absl::OkStatus();
  return NullCursorRefusal(settings(), *count);
}

absl::StatusOr<bool> TablePoll::Step(ChangeSink* sink) {
  const PageOrder order{.part = parts_.front(),
                        .after = after_,
                        .after_tombstone = after_tombstone_,
                        .rows_max = lent_.settings->page_rows};
  absl::StatusOr<RowPage> page = lent_.engine->ReadPage(table_, order);
  if (!page.ok()) return page.status();
  for (const PolledRow& row : page->rows) {
    if (absl::Status told = Tell(row, sink); !told.ok()) return told;
  }
  if (!page->at_end) return false;
  EndPart();
  return parts_.empty();
}

absl::Status TablePoll::Tell(const PolledRow& row, ChangeSink* sink) {
  v1::PolledTableState& state = *lent_.state;
  const Part part = parts_.front();
  ++rows_read_;
  (row.tombstone ? after_tombstone_ : after_) = PlaceOf(row);
  if (part == Part::kWindow && !row.below_bound) {
    (row.tombstone ? tombstones_rose_ : rose_) = true;
  }
  if (part == Part::kNulls) state.set_null_cursors(state.null_cursors() + 1);
  if (part == Part::kPoisonLow || part == Part::kPoisonHigh) {
    state.set_poison_rows(state.poison_rows() + 1);
    if (state.poison_keys_size() < kPoisonKeysMax) {
      state.add_poison_keys(KeyJson(window_.shape.schema, row.key_image, ImageColumns::kKey));
    }
  }
  absl::StatusOr<JudgedRow> judged = lent_.comparison->Judge(window_.shape.schema, row);
  if (!judged.ok()) return judged.status();
  if (judged->told_as == ToldAs::kNothing) return absl::OkStatus();
  if (judged->told_as == ToldAs::kDelete) {
    if (row.left_to_younger || deleted_ == judged->key) return absl::OkStatus();
    deleted_ = judged->key;
  }
  const bool restamped =
      judged->told_as != ToldAs::kUpdate ||
      std::any_of(judged->columns.begin(), judged->columns.end(),
                  [&](const ColumnDifference& one) { return one.name == settings().cursor; });
  if (part == Part::kWindow && row.below_bound && restamped) {
    state.set_late_rows(state.late_rows() + 1);
  }
  sink->Add(window_.shape.schema, judged->told_as, row);
  return absl::OkStatus();
}

void TablePoll::EndPart() {
  v1::PolledTableState& state = *lent_.state;
  if (parts_.front() == Part::kWindow) {
    // Rows came in the source's order: the last is the highest.
    if (rose_) SetBound(after_, &state);
    if (tombstones_rose_) SetTombstoneBound(after_tombstone_, &state);
    state.set_rows_read(state.rows_read() + rows_read_);
  }
  parts_.pop_front();
  after_ = {};
  after_tombstone_ = {};
}

}  // namespace tidemark::capture::poll
