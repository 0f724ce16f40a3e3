#include "capture/postgres/row_encoder.h"

#include <algorithm>

#include "capture/postgres/copy_text.h"
#include "capture/postgres/value.h"
#include "capture/row_image.h"
#include "fmt/format.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// A buffer that one huge value made large does not stay so.
constexpr size_t kBufferKeptBytesMax = 4 << 20;

absl::Status RowError(const RowShape& shape, std::string_view problem) {
  return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kSourceProtocol,
                         fmt::format("a row of {} {}", shape.table_name, problem),
                         {{"table", shape.table_name}});
}

absl::Status CheckWidth(const RowShape& shape, size_t width) {
  if (width == shape.types.size()) return absl::OkStatus();
  return RowError(shape,
                  fmt::format("has {} columns where its schema has {}", width, shape.types.size()));
}

// Says where a value that does not read stands.
absl::Status InColumn(const RowShape& shape, size_t column, const absl::Status& status) {
  return ErrorWithReason(status.code(), ReasonOf(status),
                         fmt::format("{}, column {}: {}", shape.table_name,
                                     shape.column_names[column], std::string(status.message())),
                         {{"table", shape.table_name}, {"column", shape.column_names[column]}});
}

bool IsKeyColumn(const RowShape& shape, size_t column) {
  return std::find(shape.key_columns.begin(), shape.key_columns.end(), column) !=
         shape.key_columns.end();
}

void Empty(std::string* buffer) {
  buffer->clear();
  if (buffer->capacity() > kBufferKeptBytesMax) buffer->shrink_to_fit();
}

// An old tuple also comes when the key did not change: under replica identity full, and when a key
// column is stored out of line.
bool ChangesKey(const RowShape& shape, const UpdateMessage& update) {
  if (update.old_kind == OldTuple::kNone) return false;
  return std::any_of(shape.key_columns.begin(), shape.key_columns.end(), [&](uint32_t column) {
    const TupleColumn& before = update.old_row[column];
    const TupleColumn& after = update.row[column];
    if (after.kind == ColumnKind::kUnchanged) return false;
    return before.kind != after.kind || before.bytes != after.bytes;
  });
}

}  // namespace

uint64_t RowEncoder::ChangesOf(const RowShape& shape, const UpdateMessage& update) {
  if (update.row.size() != shape.types.size()) return 1;
  if (update.old_row.size() != shape.types.size()) return 1;
  return ChangesKey(shape, update) ? 2 : 1;
}

absl::Status RowEncoder::AppendColumn(const RowShape& shape, size_t column,
                                      const TupleColumn& value, ValueTag tag, std::string* out) {
  switch (value.kind) {
    case ColumnKind::kNull:
      AppendNull(tag, out);
      return absl::OkStatus();
    case ColumnKind::kUnchanged:
      after_has_absent_ |= tag == ValueTag::kAfter;
      AppendAbsent(tag, out);
      return absl::OkStatus();
    case ColumnKind::kText: {
      const size_t size = out->size();
      absl::Status status = EncodeText(*shape.types[column], value.bytes, tag, out);
      if (!status.ok() && composite_text_allowed_ && HoldsComposite(*shape.types[column])) {
        out->resize(size);
        status = EncodeText(ValueType(), value.bytes, tag, out);
      }
      return status.ok() ? status : InColumn(shape, column, status);
    }
    case ColumnKind::kBinary:
      break;
  }
  return RowError(shape, fmt::format("has a binary value in column {}, where text was asked for",
                                     shape.column_names[column]));
}

absl::Status RowEncoder::EncodeRow(const RowShape& shape, Tuple row, ValueTag tag,
                                   std::string* out) {
  Empty(out);
  if (absl::Status status = CheckWidth(shape, row.size()); !status.ok()) return status;
  for (size_t column = 0; column < row.size(); ++column) {
    absl::Status status = AppendColumn(shape, column, row[column], tag, out);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool RowEncoder::HasGap(const RowShape& shape) const {
  return (after_has_absent_ && shape.rows_kept) || (shape.wants_before && before_.empty());
}

absl::Status RowEncoder::EncodeAfter(const RowShape& shape, const UpdateMessage& update) {
  after_has_absent_ = false;
  if (update.old_kind == OldTuple::kNone) {
    return EncodeRow(shape, update.row, ValueTag::kAfter, &after_);
  }
  Empty(&after_);
  for (size_t column = 0; column < update.row.size(); ++column) {
    const bool old_has_it = update.old_kind == OldTuple::kRow || IsKeyColumn(shape, column);
    const bool from_old = update.row[column].kind == ColumnKind::kUnchanged && old_has_it;
    const TupleColumn& value = from_old ? update.old_row[column] : update.row[column];
    absl::Status status = AppendColumn(shape, column, value, ValueTag::kAfter, &after_);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RowEncoder::EncodeKey(const RowShape& shape, Tuple old_row) {
  Empty(&key_);
  for (const uint32_t column : shape.key_columns) {
    const TupleColumn& value = old_row[column];
    if (value.kind == ColumnKind::kNull || value.kind == ColumnKind::kUnchanged) {
      return RowError(shape,
                      fmt::format("comes without its key column {}", shape.column_names[column]));
    }
    absl::Status status = AppendColumn(shape, column, value, ValueTag::kKey, &key_);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RowEncoder::AddInsert(const RowShape& shape, const InsertMessage& insert,
                                   TransactionBuilder* builder) {
  absl::Status status = EncodeRow(shape, insert.row, ValueTag::kAfter, &after_);
  if (!status.ok()) return status;
  builder->AddChange(v1::OP_INSERT, shape.schema_id, {.after = after_});
  return absl::OkStatus();
}

absl::Status RowEncoder::AddUpdate(const RowShape& shape, const UpdateMessage& update,
                                   TransactionBuilder* builder) {
  absl::Status status = CheckWidth(shape, update.row.size());
  if (status.ok() && update.old_kind != OldTuple::kNone) {
    status = CheckWidth(shape, update.old_row.size());
  }
  if (status.ok()) status = EncodeAfter(shape, update);
  Empty(&before_);
  if (status.ok() && update.old_kind == OldTuple::kRow) {
    status = EncodeRow(shape, update.old_row, ValueTag::kBefore, &before_);
  }
  if (!status.ok()) return status;
  if (!ChangesKey(shape, update)) {
    builder->AddChange(v1::OP_UPDATE, shape.schema_id,
                       {.after = after_, .before = before_, .has_gaps = HasGap(shape)});
    return absl::OkStatus();
  }
  status = EncodeKey(shape, update.old_row);
  if (status.ok()) builder->AddKeyChange(shape.schema_id, key_, before_, after_, HasGap(shape));
  return status;
}

absl::Status RowEncoder::AddDelete(const RowShape& shape, const DeleteMessage& removal,
                                   TransactionBuilder* builder) {
  absl::Status status = CheckWidth(shape, removal.old_row.size());
  if (status.ok()) status = EncodeKey(shape, removal.old_row);
  Empty(&before_);
  if (status.ok() && removal.old_kind == OldTuple::kRow) {
    status = EncodeRow(shape, removal.old_row, ValueTag::kBefore, &before_);
  }
  if (!status.ok()) return status;
  builder->AddChange(
      v1::OP_DELETE, shape.schema_id,
      {.before = before_, .key = key_, .has_gaps = shape.wants_before && before_.empty()});
  return absl::OkStatus();
}

void RowEncoder::AddTruncate(const RowShape& shape, TransactionBuilder* builder) {
  builder->AddChange(v1::OP_TRUNCATE, shape.schema_id, {});
}

absl::Status RowEncoder::EncodeRead(const RowShape& shape,
                                    std::span<const std::optional<std::string_view>> row,
                                    std::string* after) {
  Empty(after);
  if (absl::Status status = CheckWidth(shape, row.size()); !status.ok()) return status;
  for (size_t column = 0; column < row.size(); ++column) {
    TupleColumn value;
    if (row[column]) value = {ColumnKind::kText, *row[column]};
    absl::Status status = AppendColumn(shape, column, value, ValueTag::kAfter, after);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RowEncoder::AddRead(const RowShape& shape,
                                 std::span<const std::optional<std::string_view>> row,
                                 TransactionBuilder* builder) {
  if (absl::Status status = EncodeRead(shape, row, &after_); !status.ok()) return status;
  builder->AddChange(v1::OP_READ, shape.schema_id, {.after = after_});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RowEncoder::KeyValues(const RowShape& shape, Tuple row,
                                                               Tuple old_row) {
  if (absl::Status status = CheckWidth(shape, row.size()); !status.ok()) return status;
  std::vector<std::string> values;
  for (const uint32_t column : shape.key_columns) {
    const bool from_old =
        row[column].kind == ColumnKind::kUnchanged && old_row.size() == row.size();
    Empty(&key_);
    absl::Status status = AppendColumn(shape, column, from_old ? old_row[column] : row[column],
                                       ValueTag::kKey, &key_);
    if (!status.ok()) return status;
    const auto value = ValuesOf(key_);
    if (!value.ok()) return value.status();
    values.emplace_back(value->front());
  }
  return values;
}

absl::Status RowEncoder::EncodeCopyLine(const RowShape& shape, std::string_view line,
                                        std::string* after) {
  Empty(&unescaped_);
  if (!SplitCopyLine(line, &unescaped_, &copy_row_)) {
    return RowError(shape, "comes as COPY text that ends inside an escape");
  }
  // COPY prints a row of no columns as an empty line.
  if (shape.types.empty() && line.empty()) copy_row_.clear();
  return EncodeRead(shape, copy_row_, after);
}

absl::Status RowEncoder::AddCopyLine(const RowShape& shape, std::string_view line,
                                     TransactionBuilder* builder) {
  if (absl::Status status = EncodeCopyLine(shape, line, &after_); !status.ok()) return status;
  builder->AddChange(v1::OP_READ, shape.schema_id, {.after = after_});
  return absl::OkStatus();
}

}  // namespace tidemark::capture::postgres
