// TableKeeper: the chunks of a table, and the transactions that are made of them.
#include <fmt/format.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "capture/postgres/copy_text.h"
#include "capture/postgres/key_text.h"
#include "capture/postgres/table_keeper.h"
#include "capture/row_image.h"
#include "capture/value_writer.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// A field of an image around a serialized Value.
void AppendValue(ValueTag tag, std::string_view value, std::string* image) {
  image->push_back(static_cast<char>(tag));
  AppendVarint(value.size(), image);
  image->append(value);
}

std::vector<std::string> KeyTexts(const RowShape& shape, const std::string& line) {
  std::string scratch;
  std::vector<std::optional<std::string_view>> columns;
  std::vector<std::string> texts;
  if (!SplitCopyLine(line, &scratch, &columns)) return texts;
  for (const uint32_t column : shape.key_columns) {
    texts.emplace_back(columns.at(column).value_or(std::string_view()));
  }
  return texts;
}

// The key columns alone, as a row of their own.
RowShape KeyShape(const RowShape& shape) {
  RowShape key;
  key.schema_id = shape.schema_id;
  key.table_name = shape.table_name;
  for (const uint32_t column : shape.key_columns) {
    key.key_columns.push_back(static_cast<uint32_t>(key.types.size()));
    key.types.push_back(shape.types[column]);
    key.column_names.push_back(shape.column_names[column]);
  }
  return key;
}

}  // namespace

void TableKeeper::StartChunk(absl::Time now) {
  for (auto& [name, state] : *lent_.states) {
    const auto table = tables_.find(name);
    if (!state.has_reading() || table == tables_.end()) continue;
    if (!state.reading().only_empties() && !state.postgres().published()) continue;
    if (const auto wait = not_before_.find(name); wait != not_before_.end()) {
      if (wait->second > now) continue;
      not_before_.erase(wait);
    }
    ChunkOrder order{.table = table->second, .rows_max = rows_max_};
    if (!state.reading().removing()) {
      order.after_key.assign(state.reading().after_key().begin(),
                             state.reading().after_key().end());
    }
    asked_.clear();
    if (state.reading().empties()) order.rows_max = 0;
    if (state.reading().removing()) {
      if (schemas_.count(name) == 0) {
        order.rows_max = 0;
      } else {
        if (const absl::Status loaded = LoadKnownKeys(state); !loaded.ok()) {
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
      }
    }
    chunk_of_ = name;
    window_.Open();
    lent_.streaming->Watch(table->second.oid, name.first, name.second);
    chunk_ = session_->Run<TableChunk>([order = std::move(order)](Connection* sql) {
      return ReadChunk(sql, order, absl::Now() + kChunkTimeout);
    });
    return;
  }
}

// The next keys that are known of a table, behind those that were asked for.
absl::Status TableKeeper::LoadKnownKeys(const v1::TableState& state) {
  const Name name(state.schema_name(), state.table_name());
  if (known_keys_of_ != name) {
    known_keys_.clear();
    known_keys_of_ = name;
  }
  if (!known_keys_.empty()) return absl::OkStatus();
  const v1::TableSchema& table = schemas_.at(name);
  auto scan = lent_.known->Scan(table, state.reading().removing_from());
  if (!scan.ok()) return scan.status();
  KnownRow row;
  while (known_keys_.size() < kKnownKeysMax) {
    auto more = (*scan)->Next(&row);
    if (!more.ok()) return more.status();
    if (!*more) break;
    auto schema = lent_.known->Schema(row.schema_id);
    if (!schema.ok()) return schema.status();
    auto values = ValuesOf(row.after);
    if (!values.ok()) return values.status();
    KnownKey known{.key = row.key};
    for (const uint32_t column : schema->key_columns()) {
      v1::Value value;
      const std::string_view bytes = values->at(column);
      if (!value.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        return absl::DataLossError("a key of a stored row is unreadable");
      }
      known.texts.push_back(InputText(value));
      AppendValue(ValueTag::kKey, bytes, &known.image);
    }
    known_keys_.push_back(std::move(known));
  }
  return absl::OkStatus();
}

// ---- A chunk whose fence was passed.

bool TableKeeper::ChunkHolds(const v1::TableState& state, absl::Time now) {
  if (!window_.Holds(read_->snapshot)) {
    // The fewer rows are asked for, the shorter the time in which they must be left alone.
    rows_max_ = std::max(rows_max_ / 2, kChunkRowsMin);
    not_before_[chunk_of_] = now + kChunkRetryPeriod;
    return false;
  }
  rows_max_ = std::min(rows_max_ * 2, kChunkRowsMax);
  if (!lent_.streaming->AgreesWith(read_->relation)) return false;
  if (read_->snapshot.xmin() < state.reading().barrier_xid()) {
    // A writer that began before the table was published may still write rows that are never sent.
    not_before_[chunk_of_] = now + kTableRetryPeriod;
    WaitFor(
        fmt::format("waiting for transactions before {} to end, which began before the table "
                    "was published (the oldest one that runs is {})",
                    state.reading().barrier_xid(), read_->snapshot.xmin()));
    return false;
  }
  WaitFor("");
  return true;
}

void TableKeeper::WaitFor(const std::string& what) {
  v1::TableState& state = StateOf(chunk_of_);
  if (state.reading().waits_for() == what) return;
  state.mutable_reading()->set_waits_for(what);
  Touch(chunk_of_);
}

absl::Status TableKeeper::Emit(const Position& head, absl::Time now, CaptureBatch* batch,
                               std::optional<Position>* made) {
  v1::TableState& state = StateOf(chunk_of_);
  const bool holds = state.has_reading() && ChunkHolds(state, now);
  const bool emptying = holds && state.reading().empties();
  absl::Status status;
  if (holds) {
    builder_.Begin();
    schemas_[chunk_of_] = read_->relation.schema;
    status =
        !state.reading().removing() || asked_.empty() ? AddReadRows(&state) : AddRemovals(&state);
    Touch(chunk_of_);
  } else {
    // What was asked for is asked again.
    for (auto key = asked_.rbegin(); key != asked_.rend(); ++key) {
      known_keys_.push_front(std::move(*key));
    }
  }
  window_.Close();
  lent_.streaming->Watch(0, "", "");
  const v1::TableSchema schema = read_->relation.schema;
  read_.reset();
  if (ReasonOf(status) == reason::kSourceProtocol) {
    Fail(&state, ReasonOf(status), std::string(status.message()));
    not_before_[chunk_of_] = now + kTableErrorRetryPeriod;
    return absl::OkStatus();
  }
  if (!status.ok() || !holds) return status;
  if (emptying && !state.reading().only_empties()) batch->emptied.push_back(chunk_of_);
  if (builder_.changes() > 0) {
    const Lsn proved = lent_.streaming->proved();
    const Position here = Position::Of(head.generation(), proved);
    *made = here > head ? here.WithOrdinal(1) : head.WithOrdinal(head.ordinal() + 1);
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
  for (const std::string& line : read_->lines) {
    if (absl::Status status = AddRow(*state, line); !status.ok()) return status;
  }
  reading->set_rows_read(reading->rows_read() + read_->lines.size());
  if (!read_->lines.empty()) {
    reading->clear_after_key();
    for (std::string& text : KeyTexts(shape, read_->lines.back())) {
      reading->add_after_key(std::move(text));
    }
  }
  if (!read_->at_end) return absl::OkStatus();
  // A table of which nothing was known has nothing that could be gone.
  reading->set_removing(!reading->fresh());
  reading->set_done(reading->fresh());
  return absl::OkStatus();
}

absl::Status TableKeeper::AddRow(const v1::TableState& state, const std::string& line) {
  const Relation& relation = read_->relation;
  absl::Status encoded = encoder_.EncodeCopyLine(relation.shape, line, &after_);
  if (!encoded.ok()) return encoded;
  const absl::StatusOr<std::string> key = KeyOf(relation.shape, after_);
  if (!key.ok()) return key.status();
  if (window_.Touched(*key)) return absl::OkStatus();
  const absl::StatusOr<std::optional<KnownRow>> known = lent_.known->Find(relation.schema, *key);
  if (!known.ok()) return known.status();
  v1::Op op = v1::OP_INSERT;
  if (*known) {
    const auto schema = lent_.known->Schema((*known)->schema_id);
    if (!schema.ok()) return schema.status();
    const auto same = SaysTheSame({&*schema, (*known)->after}, {&relation.schema, after_});
    if (!same.ok()) return same.status();
    if (*same) return absl::OkStatus();
    op = v1::OP_UPDATE;
  }
  if (state.reading().fresh()) op = v1::OP_READ;
  builder_.AddChange(op, relation.shape.schema_id, {.after = after_});
  return absl::OkStatus();
}

absl::Status TableKeeper::AddRemovals(v1::TableState* state) {
  const RowShape shape = KeyShape(read_->relation.shape);
  absl::flat_hash_set<std::string> there;
  for (const std::string& line : read_->lines) {
    absl::Status encoded = encoder_.EncodeCopyLine(shape, line, &after_);
    if (!encoded.ok()) return encoded;
    absl::StatusOr<std::string> key = KeyOf(shape, after_);
    if (!key.ok()) return key.status();
    there.insert(*std::move(key));
  }
  for (const KnownKey& asked : asked_) {
    if (there.contains(asked.key) || window_.Touched(asked.key)) continue;
    const auto known = lent_.known->Find(read_->relation.schema, asked.key);
    if (!known.ok()) return known.status();
    if (!*known) continue;
    builder_.AddChange(v1::OP_DELETE, shape.schema_id, {.key = asked.image});
  }
  // The smallest key behind the last one.
  state->mutable_reading()->set_removing_from(asked_.back().key + '\0');
  return absl::OkStatus();
}

absl::StatusOr<std::string> TableKeeper::KeyOf(const RowShape& shape,
                                               std::string_view after) const {
  const auto values = ValuesOf(after);
  if (!values.ok()) return values.status();
  std::vector<std::string_view> key;
  for (const uint32_t column : shape.key_columns) key.push_back(values->at(column));
  return lent_.known->EncodeKey(key);
}

void TableKeeper::Finish(v1::TableState* state, absl::Time now) {
  const Name name(state->schema_name(), state->table_name());
  state->set_last_cause(state->reading().cause());
  state->set_last_rows_read(state->reading().rows_read());
  state->set_last_changes_made(state->reading().changes_made());
  state->set_last_read_us(absl::ToUnixMicros(now));
  state->set_followed(!state->reading().only_empties());
  state->clear_reading();
  state->clear_error_reason();
  state->clear_error_message();
  if (known_keys_of_ == name) known_keys_of_ = {};
  schemas_.erase(name);
  Touch(name);
}

}  // namespace tidemark::capture::postgres
