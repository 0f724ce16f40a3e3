// TableKeeper: the chunks of a table, and the transactions that are made of them.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/key_text.h"
#include "capture/postgres/reading_progress.h"
#include "capture/postgres/table_keeper.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {

bool TableKeeper::MayRead(const Name& name, const v1::TableState& state, absl::Time now) const {
  if (!state.has_reading() || tables_.count(name) == 0) return false;
  if (!state.reading().only_empties() && !state.postgres().published()) return false;
  const auto wait = not_before_.find(name);
  return wait == not_before_.end() || wait->second <= now;
}

void TableKeeper::StartChunk(absl::Time now) {
  for (auto& [name, state] : *lent_.states) {
    if (!MayRead(name, state, now) || ReadsWhole(name, state)) continue;
    ChunkOrder order{.table = tables_.at(name),
                     .rows_max = chunk_size_.rows_read(),
                     .writers_before = state.reading().barrier_xid()};
    if (!state.reading().removing()) {
      order.after_key.assign(state.reading().after_key().begin(),
                             state.reading().after_key().end());
    }
    asked_.clear();
    asked_moved_.clear();
    if (state.reading().empties()) order.rows_max = 0;
    order.keyless_too = state.reading().only_empties();
    if (look_passed_ < look_of_readings_ ||
        (state.reading().removing() && schemas_.count(name) == 0)) {
      // A change from before what the look saw would count as one beside the chunk, and what it
      // says of a row is not what the row holds now. Behind the fence of this one there is none.
      order.rows_max = 0;
    } else if (state.reading().removing()) {
      if (const absl::Status loaded = RefillKnownKeys(state); !loaded.ok()) {
        failure_ = loaded;
        return;
      }
      if (known_keys_.empty()) {
        Finish(&state, now);
        continue;
      }
      while (!known_keys_.empty() && asked_.size() < kKeysAskedMax) {
        order.keys.push_back(known_keys_.front().texts);
        asked_.push_back(std::move(known_keys_.front()));
        known_keys_.pop_front();
      }
    } else if (moved_.Has(name)) {
      asked_moved_ = moved_.Next(name, kKeysAskedMax);
      order.keys = asked_moved_;
      order.whole_rows = true;
      order.after_key.clear();
    }
    return ReadBeside(std::move(order), /*verifies=*/false);
  }
  StartVerifyingChunk(now);
}

// The readings come first.
void TableKeeper::StartVerifyingChunk(absl::Time now) {
  if (looks_ == 0) return;
  if (!verifier_.active()) {
    std::optional<VerifyOrder> order = lent_.desk->TakeVerify();
    if (order) verifier_.Begin(*std::move(order));
  }
  absl::StatusOr<std::optional<ChunkOrder>> next =
      verifier_.Next(std::min(chunk_size_.rows_told(), kChunkRowsMax), now);
  if (!next.ok()) {
    failure_ = next.status();
  } else if (*next) {
    ReadBeside(**std::move(next), /*verifies=*/true);
  }
}

void TableKeeper::ReadBeside(ChunkOrder order, bool verifies) {
  chunk_of_ = {order.table.schema, order.table.table};
  chunk_verifies_ = verifies;
  look_of_chunk_ = looks_;
  window_.Open();
  order.streamed = window_.streamed_before();
  lent_.streaming->Watch({.oid = order.table.oid,
                          .schema = order.table.schema,
                          .table = order.table.table,
                          .rows_known = verifies});
  chunk_ = session_->Run<TableChunk>([order = std::move(order)](Connection* sql) {
    return ReadChunk(sql, order, absl::Now() + kChunkTimeout);
  });
}

// What the stream does from here on says nothing of a chunk any more.
void TableKeeper::Unwatch() {
  window_.Close();
  lent_.streaming->Watch({});
}

// Tables of which one part is read and one is not.
void TableKeeper::WatchMoves() {
  std::set<Name> tables;
  for (auto& [name, state] : *lent_.states) {
    if (state.reading().removing() || state.reading().after_key().empty()) continue;
    if (!moved_.HasTooMany(name)) {
      tables.insert(name);
      continue;
    }
    state.mutable_reading()->clear_after_key();
    state.mutable_reading()->clear_rows_read();
    if (window_.open() && chunk_of_ == name) window_.Spoil();
    Touch(name);
  }
  moved_.Watch(tables);
}

// The next keys that are known of a table, behind those that were asked for.
absl::Status TableKeeper::RefillKnownKeys(const v1::TableState& state) {
  const Name name(state.schema_name(), state.table_name());
  if (known_keys_of_ != name) {
    known_keys_.clear();
    known_keys_of_ = name;
  }
  if (!known_keys_.empty()) return absl::OkStatus();
  auto keys =
      LoadKnownKeys(*lent_.known, schemas_.at(name), state.reading().removing_from(), InputText);
  if (!keys.ok()) return keys.status();
  known_keys_ = *std::move(keys);
  return absl::OkStatus();
}

// The keys that a chunk asked for and told nothing of are loaded again.
void TableKeeper::AskAgain() {
  if (known_keys_of_ == chunk_of_) known_keys_of_ = {};
}

// ---- A chunk whose fence was passed.

// A partition that came since the last look may be gone again at the next one.
bool TableKeeper::PartsAsSeen(const Name& name, std::span<const uint32_t> part_oids) const {
  const auto state = lent_.states->find(name);
  if (state == lent_.states->end() || !state->second.postgres().partitioned()) return true;
  return HasParts(state->second.postgres(), part_oids);
}

bool TableKeeper::ChunkHolds(absl::Time now) {
  look_passed_ = look_of_chunk_;
  if (!read_->lines.empty() && !PartsAsSeen(chunk_of_, read_->parts)) {
    look_due_ = now;
    return false;
  }
  if (!window_.Holds(read_->snapshot)) {
    chunk_size_.NotLeftAlone();
    return false;
  }
  if (std::exchange(fence_ahead_, false)) chunk_size_.LeftAlone(now - read_at_);
  if (asked_moved_.empty() && !read_->lines.empty()) told_at_ = now;
  return lent_.streaming->AgreesWith(read_->relation);
}

bool TableKeeper::ReadingHolds(absl::Time now) {
  if (!read_->waits_for.empty()) {
    not_before_[chunk_of_] = now + kTableRetryPeriod;
    WaitFor(chunk_of_, read_->waits_for);
    return false;
  }
  if (!ChunkHolds(now)) {
    not_before_[chunk_of_] = now + kChunkRetryPeriod;
    return false;
  }
  WaitFor(chunk_of_, "");
  return true;
}

void TableKeeper::WaitFor(const Name& name, const std::string& what) {
  v1::TableState& state = StateOf(name);
  if (state.reading().waits_for() == what) return;
  state.mutable_reading()->set_waits_for(what);
  Touch(name);
}

absl::Status TableKeeper::Emit(const Position& head, absl::Time now, CaptureBatch* batch,
                               std::optional<Position>* made) {
  v1::TableState& state = StateOf(chunk_of_);
  const bool holds = state.has_reading() && ReadingHolds(now);
  const bool emptying = holds && state.reading().empties();
  absl::Status status;
  std::optional<RowsBehind> behind;
  if (holds) {
    builder_.Begin();
    schemas_[chunk_of_] = read_->relation.schema;
    behind = TakeRowsBehind(state.reading());
    status =
        !state.reading().removing() || asked_.empty() ? AddReadRows(&state) : AddRemovals(&state);
    Touch(chunk_of_);
  }
  if (!holds || !status.ok()) AskAgain();
  const v1::TableSchema schema = read_->relation.schema;
  if (behind && status.ok() && !state.reading().empties()) {
    read_->lines = std::move(behind->lines);
    read_->at_end = behind->at_end;
  } else {
    Unwatch();
    read_.reset();
    asked_moved_.clear();
  }
  if (ReasonOf(status) == reason::kSourceProtocol) {
    Fail(&state, ReasonOf(status), std::string(status.message()));
    not_before_[chunk_of_] = now + kTableErrorRetryPeriod;
    return absl::OkStatus();
  }
  if (!status.ok() || !holds) return status;
  state.clear_error_reason();
  state.clear_error_message();
  if (emptying && !state.reading().only_empties()) batch->emptied.push_back(chunk_of_);
  if (builder_.changes() > 0) {
    *made = PlaceOfMade(head);
    v1::CommitRecord record;
    record.set_origin(state.reading().fresh() ? v1::ORIGIN_SNAPSHOT : v1::ORIGIN_RESYNC);
    record.set_commit_time_us(absl::ToUnixMicros(now));
    state.mutable_reading()->set_changes_made(state.reading().changes_made() + builder_.changes());
    batch->events.push_back(SchemaSeen{schema});
    batch->events.push_back(TransactionRead{builder_.Finish(**made, std::move(record))});
    batch->made = true;
  }
  if (state.reading().done()) Finish(&state, now);
  return absl::OkStatus();
}

// The rows of a chunk stay what they are while the stream goes on beside them: the window is open
// until the last of them are told.
std::optional<TableKeeper::RowsBehind> TableKeeper::TakeRowsBehind(
    const v1::TableReading& reading) {
  const size_t now = chunk_size_.rows_told();
  if (reading.removing() || !asked_moved_.empty() || read_->lines.size() <= now) {
    return std::nullopt;
  }
  const auto first = read_->lines.begin() + static_cast<std::ptrdiff_t>(now);
  RowsBehind behind{{std::make_move_iterator(first), std::make_move_iterator(read_->lines.end())},
                    std::exchange(read_->at_end, false)};
  read_->lines.erase(first, read_->lines.end());
  return behind;
}

// Behind everything that was handed over.
Position TableKeeper::PlaceOfMade(const Position& head) const {
  const Position here = Position::Of(head.generation(), lent_.streaming->proved());
  return here > head ? here.WithOrdinal(1) : head.WithOrdinal(head.ordinal() + 1);
}

absl::Status TableKeeper::Verify(const Position& head, absl::Time now) {
  absl::Status status;
  if (!read_->waits_for.empty()) {
    verifier_.Waits(read_->waits_for, now);
  } else if (ChunkHolds(now)) {
    const Position proved = Position::Of(head.generation(), lent_.streaming->proved());
    status = verifier_.Compare(*read_, std::max(head, proved), now);
  } else {
    verifier_.ReadAgain(now);
  }
  Unwatch();
  read_.reset();
  return status;
}

absl::Status TableKeeper::AddReadRows(v1::TableState* state) {
  v1::TableReading* reading = state->mutable_reading();
  const RowShape& shape = read_->relation.shape;
  if (reading->empties()) {
    encoder_.AddTruncate(shape, &builder_);
    reading->set_empties(false);
    reading->set_fresh(true);
    reading->set_done(reading->only_empties());
    return absl::OkStatus();
  }
  if (reading->removing()) return absl::OkStatus();
  if (!reading->fresh() && !lent_.known->Kept(read_->relation.schema)) {
    // Nothing is known that it could be compared with.
    reading->set_empties(true);
    return absl::OkStatus();
  }
  // They do not go together with what the stream told of them: they are read by key.
  std::vector<MovedRows::Key> left_out;
  const absl::Status compared = comparison_.Rows(*read_, [&](const ComparedRow& row) {
    AddRow(reading->fresh(), row);
    if (row.verdict == RowVerdict::kLeftOut) left_out.push_back(KeyTextsOf(shape, row.line));
  });
  if (!compared.ok()) return compared;
  if (asked_moved_.empty()) {
    // A row may have moved out of the last chunk before its snapshot, to where nobody reads again.
    AdvanceReading(*read_, !left_out.empty() || moved_.Has(chunk_of_), reading);
  } else {
    NoteMovedRead();
  }
  if (left_out.empty()) return absl::OkStatus();
  WatchMoves();
  // If not, so many moved that the table is read from its beginning.
  if (!moved_.Watches(chunk_of_)) return absl::OkStatus();
  for (MovedRows::Key& key : left_out) moved_.Add(chunk_of_, std::move(key));
  return absl::OkStatus();
}

// Of those that did not come, and are not left out, the stream told that they are gone.
void TableKeeper::NoteMovedRead() {
  if (read_->cut) {
    std::set<MovedRows::Key> came;
    for (const std::string& line : read_->lines) {
      came.insert(KeyTextsOf(read_->relation.shape, line));
    }
    std::erase_if(asked_moved_, [&](const MovedRows::Key& key) { return came.count(key) == 0; });
  }
  moved_.Remove(chunk_of_, asked_moved_);
}

void TableKeeper::AddRow(bool fresh, const ComparedRow& row) {
  if (row.verdict != RowVerdict::kMissing && row.verdict != RowVerdict::kDifferent) return;
  v1::Op op = row.verdict == RowVerdict::kMissing ? v1::OP_INSERT : v1::OP_UPDATE;
  if (fresh) op = v1::OP_READ;
  builder_.AddChange(op, read_->relation.shape.schema_id, {.after = row.after});
}

absl::Status TableKeeper::AddRemovals(v1::TableState* state) {
  const absl::Status compared =
      comparison_.Keys(*read_, asked_, [this](const KnownKey& asked, RowVerdict verdict) {
        if (verdict != RowVerdict::kExtra) return;
        builder_.AddChange(v1::OP_DELETE, read_->relation.shape.schema_id, {.key = asked.image});
      });
  if (!compared.ok()) return compared;
  state->mutable_reading()->set_removing_from(KeyBehind(asked_.back().key));
  return absl::OkStatus();
}

void TableKeeper::Finish(v1::TableState* state, absl::Time now) {
  const Name name(state->schema_name(), state->table_name());
  state->set_last_cause(state->reading().cause());
  state->set_last_rows_read(state->reading().rows_read());
  state->set_last_changes_made(state->reading().changes_made());
  state->set_last_read_us(absl::ToUnixMicros(now));
  state->set_followed(!state->reading().only_empties());
  state->clear_reading();
  if (known_keys_of_ == name) known_keys_of_ = {};
  schemas_.erase(name);
  Touch(name);
}

}  // namespace tidemark::capture::postgres
