#include "capture/postgres/chunk_comparison.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "capture/postgres/copy_text.h"

namespace tidemark::capture::postgres {
namespace {

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

std::vector<std::string> KeyTextsOf(const RowShape& shape, std::string_view line) {
  std::string scratch;
  std::vector<std::optional<std::string_view>> columns;
  std::vector<std::string> texts;
  if (!SplitCopyLine(line, &scratch, &columns)) return texts;
  for (const uint32_t column : shape.key_columns) {
    texts.emplace_back(columns.at(column).value_or(std::string_view()));
  }
  return texts;
}

absl::Status ChunkComparison::Rows(const TableChunk& chunk,
                                   const std::function<void(const ComparedRow&)>& take) {
  const RowShape& shape = chunk.relation.shape;
  for (const std::string& line : chunk.lines) {
    if (auto encoded = encoder_.EncodeCopyLine(shape, line, &after_); !encoded.ok()) return encoded;
    auto key = KeyOf(shape, after_);
    if (!key.ok()) return key.status();
    ComparedRow row{.key = *std::move(key), .after = after_, .line = line};
    if (auto compared = CompareRow(chunk.relation, &row); !compared.ok()) return compared;
    take(row);
  }
  return absl::OkStatus();
}

absl::Status ChunkComparison::CompareRow(const Relation& relation, ComparedRow* row) {
  const ChunkWindow::Touched* touched = window_.Find(row->key);
  if (touched != nullptr && touched->left_out.empty()) return absl::OkStatus();
  const auto known = known_.Find(relation.schema, row->key);
  if (!known.ok()) return known.status();
  if (touched != nullptr) {
    row->verdict = RowVerdict::kLeftOut;
    if (!known->has_value()) return absl::OkStatus();
    const absl::StatusOr<bool> whole = PutTogether(*touched, **known, relation, row);
    if (!whole.ok() || !*whole) return whole.status();
  }
  if (!known->has_value()) {
    row->verdict = RowVerdict::kMissing;
    return absl::OkStatus();
  }
  const auto schema = known_.Schema((*known)->schema_id);
  if (!schema.ok()) return schema.status();
  auto columns = ColumnsThatDiffer({&*schema, (*known)->after}, {&relation.schema, row->after});
  if (!columns.ok()) return columns.status();
  row->verdict = columns->empty() ? RowVerdict::kSame : RowVerdict::kDifferent;
  row->columns = *std::move(columns);
  return absl::OkStatus();
}

// Since the window was opened, the columns that no change told are as the chunk has them, and the
// others are as the newest change told them.
absl::StatusOr<bool> ChunkComparison::PutTogether(const ChunkWindow::Touched& touched,
                                                  const KnownRow& known, const Relation& relation,
                                                  ComparedRow* row) {
  const uint64_t schema_id = relation.shape.schema_id;
  if (touched.schema_id != schema_id || known.schema_id != schema_id) return false;
  auto image = WithValuesOf(known.after, row->after, touched.left_out);
  if (!image.ok()) return image.status();
  put_together_ = *std::move(image);
  row->after = put_together_;
  return true;
}

absl::Status ChunkComparison::Keys(const TableChunk& chunk, std::span<const KnownKey> asked,
                                   const std::function<void(const KnownKey&, RowVerdict)>& take) {
  const RowShape shape = KeyShape(chunk.relation.shape);
  absl::flat_hash_set<std::string> there;
  for (const std::string& line : chunk.lines) {
    if (auto encoded = encoder_.EncodeCopyLine(shape, line, &after_); !encoded.ok()) return encoded;
    auto key = KeyOf(shape, after_);
    if (!key.ok()) return key.status();
    there.insert(*std::move(key));
  }
  for (const KnownKey& one : asked) {
    RowVerdict verdict = RowVerdict::kSame;
    if (there.contains(one.key)) {
      // Whatever became of it since.
    } else if (window_.Find(one.key) != nullptr) {
      verdict = RowVerdict::kTouched;
    } else {
      const auto known = known_.Find(chunk.relation.schema, one.key);
      if (!known.ok()) return known.status();
      verdict = known->has_value() ? RowVerdict::kExtra : RowVerdict::kNowhere;
    }
    take(one, verdict);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChunkComparison::KeyOf(const RowShape& shape,
                                                   std::string_view after) const {
  const auto values = ValuesOf(after);
  if (!values.ok()) return values.status();
  std::vector<std::string_view> key;
  for (const uint32_t column : shape.key_columns) key.push_back(values->at(column));
  return known_.EncodeKey(key);
}

}  // namespace tidemark::capture::postgres
