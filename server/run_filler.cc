#include "server/run_filler.h"

#include <algorithm>
#include <utility>

#include "capture/value_writer.h"
#include "proto/reason.h"
#include "store/absent_columns.h"
#include "store/row_value.h"

namespace tidemark {
namespace {

using capture::ValueTag;
using store::KeyedTable;
using store::RunWalker;

absl::Status Damaged(std::string_view found) {
  return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kStoreDamaged,
                         "a change cannot be filled: " + std::string(found));
}

// A buffer that one huge value made large does not stay so.
constexpr size_t kBufferKeptBytesMax = size_t{4} << 20;

// Written anew in `image`.
std::string_view Image(const std::vector<std::string_view>& values, ValueTag tag,
                       std::string* image) {
  image->clear();
  if (image->capacity() > kBufferKeptBytesMax) image->shrink_to_fit();
  for (const std::string_view value : values) {
    image->push_back(static_cast<char>(tag));
    capture::AppendVarint(value.size(), image);
    image->append(value);
  }
  return *image;
}

bool HasPieces(const std::vector<std::string_view>& values) {
  return std::any_of(values.begin(), values.end(), store::IsInParts);
}

}  // namespace

bool RunFiller::MayHaveGap(const KeyedTable& table, const store::ChangeView& change) const {
  if (!table.kept()) return false;
  const bool lacks_before = change.before.empty() && wants_before_(table.schema);
  switch (change.op) {
    case v1::OP_UPDATE:
      return lacks_before || store::HasAbsent(change.after);
    case v1::OP_INSERT:
      return change.key_change && store::HasAbsent(change.after);
    case v1::OP_DELETE:
      return lacks_before;
    default:
      return false;
  }
}

absl::StatusOr<bool> RunFiller::HasGaps(std::string_view run) {
  walker_.Start(run);
  for (;;) {
    const RunWalker::Item item = walker_.Next();
    if (item == RunWalker::Item::kEnd) return false;
    if (item == RunWalker::Item::kDamaged) return Damaged("a run that is no tidemark.v1.Run");
    if (item == RunWalker::Item::kPart) continue;
    const auto table = keys_.Find(walker_.schema_ids()[walker_.change().table]);
    if (!table.ok()) return table.status();
    if (MayHaveGap(**table, walker_.change())) return true;
    // What its insert half lacks is known before it only.
    if ((*table)->kept() && walker_.change().key_change) return true;
  }
}

absl::Status RunFiller::Fill(uint64_t first_sequence, std::string_view run,
                             std::span<const std::string_view> pieces) {
  builder_.Begin();
  builder_.SkipChanges(first_sequence);
  walker_.Start(run);
  for (;;) {
    const RunWalker::Item item = walker_.Next();
    if (item == RunWalker::Item::kEnd) break;
    if (item != RunWalker::Item::kChange) return Damaged("a run that is no run of changes");
    const store::ChangeView& view = walker_.change();
    WholeChange change{view.op,
                       first_sequence + view.ordinal,
                       walker_.schema_ids()[view.table],
                       view.key_change,
                       view.after,
                       view.before,
                       view.key,
                       {}};
    if (!pieces.empty()) {
      if (absl::Status status = PutTogether(pieces, &change); !status.ok()) return status;
    }
    const auto table = keys_.Find(change.schema_id);
    if (!table.ok()) return table.status();
    absl::Status status = FillChange(**table, &change);
    if (status.ok()) status = AddToRun(change);
    if (status.ok()) status = Remember(**table, change);
    if (!status.ok()) return status;
  }
  for (EncodedRun& rest : builder_.Finish(Position(), {}).runs) {
    if (absl::Status status = emit_(std::move(rest)); !status.ok()) return status;
  }
  open_rows_.clear();
  open_truncated_.clear();
  return absl::OkStatus();
}

absl::Status RunFiller::PutTogether(std::span<const std::string_view> pieces, WholeChange* change) {
  std::vector<std::string_view>* images[] = {&change->after, &change->before, &change->key};
  std::vector<std::string_view>* image = nullptr;
  uint32_t column = 0;
  for (const std::string_view bytes : pieces) {
    piece_walker_.Start(bytes);
    if (piece_walker_.Next() != RunWalker::Item::kPart) return Damaged("a piece that is none");
    const store::PartView& part = piece_walker_.part();
    if (part.image < v1::IMAGE_AFTER || part.image > v1::IMAGE_KEY) {
      return Damaged("a piece of no image");
    }
    if (part.offset_bytes == 0) {
      image = images[part.image - v1::IMAGE_AFTER];
      column = part.column;
      change->owned.emplace_back();
    }
    if (image != images[part.image - v1::IMAGE_AFTER] || column != part.column ||
        column >= image->size() || change->owned.back().size() != part.offset_bytes) {
      return Damaged("a piece of a value that does not fit");
    }
    change->owned.back().append(part.data);
    if (part.last) (*image)[column] = change->owned.back();
  }
  const bool missing = std::any_of(std::begin(images), std::end(images),
                                   [](const auto* values) { return HasPieces(*values); });
  return missing ? Damaged("a value without its pieces") : absl::OkStatus();
}

absl::Status RunFiller::FillChange(const KeyedTable& table, WholeChange* change) {
  if (!table.kept()) return absl::OkStatus();
  auto row = FindBefore(table, *change);
  if (!row.ok()) return row.status();
  if (change->op == v1::OP_DELETE && change->key_change) {
    key_change_row_ = *row;
    key_change_sequence_ = change->sequence;
  }
  return row->has_value() ? TakeOver(**std::move(row), table, change) : absl::OkStatus();
}

// nullopt too where the change needs no row.
absl::StatusOr<std::optional<std::string>> RunFiller::FindBefore(const KeyedTable& table,
                                                                 const WholeChange& change) {
  const bool lacks_before = change.before.empty() && wants_before_(table.schema);
  switch (change.op) {
    case v1::OP_UPDATE: {
      if (!lacks_before && !store::HasAbsent(change.after)) return std::nullopt;
      absl::Status status = store::RowKeys::OfRow(table, change.after, &key_);
      if (!status.ok()) return status;
      return FindUnderKey(table);
    }
    case v1::OP_DELETE: {
      if (!lacks_before && !change.key_change) return std::nullopt;
      absl::Status status = store::RowKeys::OfKey(table, change.key, &key_);
      if (!status.ok()) return status;
      return FindUnderKey(table);
    }
    case v1::OP_INSERT:
      if (!change.key_change || key_change_sequence_ + 1 != change.sequence) return std::nullopt;
      return std::exchange(key_change_row_, std::nullopt);
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::optional<std::string>> RunFiller::FindUnderKey(const KeyedTable& table) {
  const auto open = open_rows_.find(key_);
  if (open != open_rows_.end()) return open->second;
  if (open_truncated_.contains(table.prefix)) return std::nullopt;
  return row_before_(table, key_);
}

absl::Status RunFiller::TakeOver(std::string row, const KeyedTable& table, WholeChange* change) {
  const auto before = store::DecodeRow(change->owned.emplace_back(std::move(row)));
  std::vector<std::string_view> values;
  if (!before || !store::SplitRowFields(before->values, &values)) {
    return Damaged("a current row that is none");
  }
  const auto old = keys_.Find(before->schema_id);
  if (!old.ok()) return old.status();
  const v1::TableSchema& old_schema = (*old)->schema;
  if (change->op != v1::OP_DELETE) {
    store::FillAbsent(old_schema, values, table.schema, &change->after);
  }
  if (change->op != v1::OP_INSERT && change->before.empty() && wants_before_(table.schema)) {
    change->before.resize(static_cast<size_t>(table.schema.columns_size()));
    store::FillAbsent(old_schema, values, table.schema, &change->before);
  }
  return absl::OkStatus();
}

absl::Status RunFiller::AddToRun(const WholeChange& change) {
  builder_.SkipChanges(change.sequence - builder_.changes());
  builder_.AddChange(change.op, change.schema_id,
                     {.after = Image(change.after, ValueTag::kAfter, &images_[0]),
                      .before = Image(change.before, ValueTag::kBefore, &images_[1]),
                      .key = Image(change.key, ValueTag::kKey, &images_[2]),
                      .key_change = change.key_change});
  std::vector<EncodedRun> full = builder_.TakeFullRuns();
  if (full.empty()) return absl::OkStatus();
  for (EncodedRun& run : full) {
    if (absl::Status status = emit_(std::move(run)); !status.ok()) return status;
  }
  // What is left open is the present change at most.
  open_rows_.clear();
  open_truncated_.clear();
  return absl::OkStatus();
}

absl::Status RunFiller::Remember(const KeyedTable& table, const WholeChange& change) {
  if (!table.kept()) return absl::OkStatus();
  if (change.op == v1::OP_TRUNCATE) {
    open_truncated_.insert(table.prefix);
    absl::erase_if(open_rows_,
                   [&](const auto& row) { return row.first.starts_with(table.prefix); });
    return absl::OkStatus();
  }
  const bool is_delete = change.op == v1::OP_DELETE;
  absl::Status status = is_delete ? store::RowKeys::OfKey(table, change.key, &key_)
                                  : store::RowKeys::OfRow(table, change.after, &key_);
  if (!status.ok()) return status;
  std::optional<std::string>& row = open_rows_[key_];
  row.reset();
  if (is_delete) return absl::OkStatus();
  store::AppendRowHeader(Position(), change.sequence, change.schema_id, &row.emplace());
  for (const std::string_view value : change.after) store::AppendRowField(value, &*row);
  return absl::OkStatus();
}

}  // namespace tidemark
