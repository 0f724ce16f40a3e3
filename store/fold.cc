#include "store/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/reason.h"
#include "store/absent_columns.h"
#include "store/identity_key.h"
#include "store/row_value.h"

namespace tidemark::store {
namespace {

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

// The same status, with the place at which it was met.
absl::Status At(const absl::Status& status, const Position& position, uint64_t sequence) {
  if (status.ok()) return status;
  ErrorDetails details = DetailsOf(status);
  details["position"] = position.Text();
  details["sequence"] = std::to_string(sequence);
  return ErrorWithReason(
      status.code(), ReasonOf(status),
      fmt::format("{} (at position {}, sequence {})",
                  std::string_view(status.message().data(), status.message().size()),
                  position.Text(), sequence),
      details);
}

absl::Status Damaged(std::string_view found) {
  return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kStoreDamaged,
                         fmt::format("the log holds what cannot be folded: {}; `logdump verify` "
                                     "names everything that is wrong",
                                     found));
}

}  // namespace

absl::Status Fold::Add(const StoredRun& run) {
  walker_.Start(run.bytes);
  for (;;) {
    absl::Status status;
    switch (walker_.Next()) {
      case RunWalker::Item::kEnd:
        return absl::OkStatus();
      case RunWalker::Item::kDamaged:
        return At(Damaged("a run that is no tidemark.v1.Run"), run.position, run.first_sequence);
      case RunWalker::Item::kChange:
        status = AddChange(run);
        if (!status.ok()) {
          return At(status, run.position, run.first_sequence + walker_.change().ordinal);
        }
        break;
      case RunWalker::Item::kPart:
        status = AddPart();
        if (!status.ok()) {
          return At(status, run.position, run.first_sequence + walker_.part().ordinal);
        }
        break;
    }
  }
}

absl::Status Fold::AddChange(const StoredRun& run) {
  if (held_) return Damaged("a change before the parts of the value before it are complete");
  const ChangeView& change = walker_.change();
  absl::StatusOr<const Schema*> schema = FindSchema(walker_.schema_ids()[change.table]);
  if (!schema.ok()) return schema.status();
  Table* table = (*schema)->table;
  if (table == nullptr) return absl::OkStatus();
  const ChangeId id{run.position, run.first_sequence + change.ordinal, change.op,
                    change.key_change};
  switch (change.op) {
    case v1::OP_INSERT:
    case v1::OP_UPDATE:
    case v1::OP_READ:
      if (HeldChange::Needed(change.after)) {
        held_.emplace(id, walker_.schema_ids()[change.table], change.after);
        return absl::OkStatus();
      }
      return Write(**schema, id, change.after);
    case v1::OP_DELETE:
      return Delete(**schema, id, change.key);
    case v1::OP_TRUNCATE:
      Truncate(table);
      return absl::OkStatus();
    default:
      return Damaged(fmt::format("a change with the unknown op {}", static_cast<int>(change.op)));
  }
}

absl::Status Fold::AddPart() {
  // Pieces of a before-image, or of a table without rows.
  if (!held_) return absl::OkStatus();
  if (!held_->Add(walker_.part())) return Damaged("a piece of a value that does not fit");
  if (!held_->whole()) return absl::OkStatus();
  const HeldChange change = *std::exchange(held_, std::nullopt);
  absl::StatusOr<const Schema*> schema = FindSchema(change.schema_id());
  if (!schema.ok()) return schema.status();
  return Write(**schema, change.id(), change.after());
}

absl::StatusOr<const Fold::Schema*> Fold::FindSchema(uint64_t id) {
  const auto known = schemas_.find(id);
  if (known != schemas_.end()) return &known->second;
  absl::StatusOr<v1::TableSchema> found = lookups_.schema(id);
  if (!found.ok()) return found.status();
  found->set_schema_id(id);
  Table* table = nullptr;
  if (found->key_columns_size() > 0 && lookups_.keeps_rows(*found)) {
    std::string prefix = RowsTablePrefix(feed_, found->schema_name(), found->table_name());
    table = &tables_[prefix];
    table->prefix = std::move(prefix);
  }
  return &schemas_.emplace(id, Schema{*std::move(found), table}).first->second;
}

absl::Status Fold::Write(const Schema& schema, const ChangeId& id,
                         const std::vector<std::string_view>& after) {
  if (after.size() != static_cast<size_t>(schema.schema.columns_size())) {
    return Damaged(fmt::format("a row with {} values of table {}, which has {} columns",
                               after.size(), schema.schema.table_name(),
                               schema.schema.columns_size()));
  }
  identity_.clear();
  for (const uint32_t column : schema.schema.key_columns()) {
    if (column >= after.size()) return Damaged("a schema whose key names no column");
    identity_.push_back(after[column]);
  }
  if (absl::Status s = BuildKey(*schema.table, identity_); !s.ok()) return s;
  if (absl::Status s = BuildRow(schema, id, after); !s.ok()) return s;
  key_change_.reset();
  Entry* entry = EntryOfKey(schema.table);
  if (entry->capacity < row_.size()) {
    entry->value = arena_.Allocate(row_.size());
    entry->capacity = row_.size();
  }
  std::memcpy(entry->value, row_.data(), row_.size());
  entry->size = row_.size();
  entry->deleted = false;
  return absl::OkStatus();
}

absl::Status Fold::Delete(const Schema& schema, const ChangeId& id,
                          const std::vector<std::string_view>& key) {
  if (key.size() != static_cast<size_t>(schema.schema.key_columns_size())) {
    return Damaged(fmt::format("a delete with {} values of the key of table {}, which has {}",
                               key.size(), schema.schema.table_name(),
                               schema.schema.key_columns_size()));
  }
  if (absl::Status s = BuildKey(*schema.table, key); !s.ok()) return s;
  key_change_.reset();
  if (id.key_change) {
    KeyChange& from = key_change_.emplace(KeyChange{id.position, id.sequence});
    const auto pending = schema.table->entries.find(ToAbsl(key_));
    if (pending == schema.table->entries.end()) {
      from.key = key_;
      from.in_store = !schema.table->truncated;
    } else if (!pending->second.deleted) {
      from.row.emplace(pending->second.value, pending->second.size);
    }
  }
  EntryOfKey(schema.table)->deleted = true;
  return absl::OkStatus();
}

void Fold::Truncate(Table* table) {
  entries_ -= table->entries.size();
  table->entries.clear();
  table->truncated = true;
}

absl::Status Fold::BuildKey(const Table& table, const std::vector<std::string_view>& identity) {
  key_ = table.prefix;
  for (const std::string_view value : identity) {
    if (absl::Status s = AppendIdentityValue(value, &key_); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Fold::BuildRow(const Schema& schema, const ChangeId& id,
                            const std::vector<std::string_view>& after) {
  row_.clear();
  AppendRowHeader(id.position, id.sequence, schema.schema.schema_id(), &row_);
  if (HasAbsent(after)) {
    absl::StatusOr<std::optional<std::string>> before = RowBefore(*schema.table, id);
    if (!before.ok()) return before.status();
    if (before->has_value()) {
      std::vector<std::string_view> filled = after;
      if (absl::Status s = FillFrom(**before, schema, &filled); !s.ok()) return s;
      for (const std::string_view value : filled) AppendRowField(value, &row_);
      return absl::OkStatus();
    }
  }
  for (const std::string_view value : after) AppendRowField(value, &row_);
  return absl::OkStatus();
}

absl::Status Fold::FillFrom(std::string_view row, const Schema& schema,
                            std::vector<std::string_view>* after) {
  const std::optional<StoredRow> before = DecodeRow(row);
  std::vector<std::string_view> values;
  if (!before || !SplitRowFields(before->values, &values)) {
    return Damaged("a row of the current rows that is none");
  }
  absl::StatusOr<const Schema*> old = FindSchema(before->schema_id);
  if (!old.ok()) return old.status();
  FillAbsent((*old)->schema, values, schema.schema, after);
  return absl::OkStatus();
}

// The row that the change goes on from; key_ is the key of the row after it.
absl::StatusOr<std::optional<std::string>> Fold::RowBefore(const Table& table, const ChangeId& id) {
  if (id.op == v1::OP_INSERT && id.key_change) {
    if (!key_change_ || key_change_->position != id.position ||
        key_change_->sequence + 1 != id.sequence) {
      return std::nullopt;
    }
    if (absl::Status s = ResolveKeyChange(); !s.ok()) return s;
    return key_change_->row;
  }
  if (id.op != v1::OP_UPDATE) return std::nullopt;
  const auto pending = table.entries.find(ToAbsl(key_));
  if (pending != table.entries.end()) {
    if (pending->second.deleted) return std::nullopt;
    return std::string(pending->second.value, pending->second.size);
  }
  if (table.truncated) return std::nullopt;
  return lookups_.stored_row(key_);
}

absl::Status Fold::ResolveKeyChange() {
  if (!key_change_ || !key_change_->in_store) return absl::OkStatus();
  absl::StatusOr<std::optional<std::string>> row = lookups_.stored_row(key_change_->key);
  if (!row.ok()) return row.status();
  key_change_->row = *std::move(row);
  key_change_->in_store = false;
  return absl::OkStatus();
}

Fold::Entry* Fold::EntryOfKey(Table* table) {
  const auto found = table->entries.find(ToAbsl(key_));
  if (found != table->entries.end()) return &found->second;
  ++entries_;
  return &table->entries[ToAbsl(arena_.Copy(key_))];
}

absl::StatusOr<FoldedRows> Fold::Take() {
  // Its row is about to go from the store.
  if (absl::Status s = ResolveKeyChange(); !s.ok()) return s;
  FoldedRows folded;
  folded.bytes = bytes();
  folded.rows.reserve(entries_);
  for (auto& [prefix, table] : tables_) {
    if (table.truncated) folded.truncated.push_back(prefix);
    for (const auto& [key, entry] : table.entries) {
      // The truncate removes what was stored.
      if (entry.deleted && table.truncated) continue;
      folded.rows.push_back({{key.data(), key.size()}, {entry.value, entry.size}, entry.deleted});
    }
    table.entries = {};
    table.truncated = false;
  }
  std::sort(folded.truncated.begin(), folded.truncated.end());
  std::sort(folded.rows.begin(), folded.rows.end(),
            [](const FoldedRow& a, const FoldedRow& b) { return a.key < b.key; });
  folded.arena = std::exchange(arena_, ByteArena());
  entries_ = 0;
  return folded;
}

}  // namespace tidemark::store
