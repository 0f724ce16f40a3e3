#include "server/rows_pager.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/limits.h"
#include "server/request_error.h"
#include "server/wire_fields.h"
#include "server/wire_writer.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {
namespace {

// What of a row stands in its own record; larger values are sent in parts until the rest fits.
constexpr size_t kRowBytesMax = limits::message_bytes_target;
constexpr size_t kPieceBytes = limits::message_bytes_target;

}  // namespace

RowsPager::RowsPager(std::unique_ptr<store::RowsReader> reader, RunFilter& filter)
    : reader_(std::move(reader)), filter_(filter) {}

absl::StatusOr<bool> RowsPager::Advance() {
  if (row_waits_) return true;
  auto found = reader_->Next(&row_);
  if (!found.ok()) return found.status();
  at_end_ = !*found;
  row_waits_ = *found;
  return *found;
}

absl::Status RowsPager::TakeLargeValues(std::string* values) {
  if (row_.values.size() <= kRowBytesMax) {
    values->assign(row_.values);
    return absl::OkStatus();
  }
  std::vector<WireField> columns;
  WireFields fields(row_.values);
  WireField field;
  while (fields.Next(&field)) columns.push_back(field);
  if (!fields.ok()) {
    return DamagedStore("a stored row");
  }
  std::vector<size_t> by_size(columns.size());
  for (size_t i = 0; i < by_size.size(); ++i) by_size[i] = i;
  std::sort(by_size.begin(), by_size.end(),
            [&](size_t a, size_t b) { return columns[a].bytes.size() > columns[b].bytes.size(); });
  size_t left = row_.values.size();
  std::vector<bool> in_parts(columns.size());
  for (const size_t column : by_size) {
    if (left <= kRowBytesMax) break;
    in_parts[column] = true;
    left -= columns[column].bytes.size();
  }
  for (size_t column = 0; column < columns.size(); ++column) {
    if (!in_parts[column]) {
      values->append(columns[column].whole);
      continue;
    }
    v1::Value placeholder;
    placeholder.mutable_in_parts()->set_size_bytes(columns[column].bytes.size());
    AppendLengthField(values, v1::Row::kValuesFieldNumber, placeholder.SerializeAsString());
    pieces_.push_back({static_cast<uint32_t>(column), columns[column].bytes, 0});
  }
  schema_of_pieces_ = row_.schema_id;
  return absl::OkStatus();
}

void RowsPager::AppendPiece(RowsPage* page) {
  Pieces& pieces = pieces_.front();
  const size_t bytes = std::min(kPieceBytes, pieces.value.size() - pieces.sent);
  v1::ValuePart part;
  part.set_image(v1::IMAGE_AFTER);
  part.set_column(pieces.column);
  part.set_offset_bytes(pieces.sent);
  part.set_data(std::string(pieces.value.substr(pieces.sent, bytes)));
  pieces.sent += bytes;
  part.set_last(pieces.sent == pieces.value.size());
  page->schema_id = schema_of_pieces_;
  AppendFixed64Field(&page->rows, v1::Rows::kSchemaIdFieldNumber, schema_of_pieces_);
  AppendLengthField(&page->rows, v1::Rows::kValuePartsFieldNumber, part.SerializeAsString());
  if (part.last()) pieces_.pop_front();
}

absl::StatusOr<RowsPage> RowsPager::Next(size_t bytes_target) {
  RowsPage page;
  if (!pieces_.empty()) {
    AppendPiece(&page);
    return page;
  }
  std::string row;
  size_t read_bytes = 0;
  while (page.rows.size() < bytes_target && read_bytes < limits::delivery_slice_bytes_max) {
    auto found = Advance();
    if (!found.ok()) return found.status();
    if (!*found) break;
    auto wanted = filter_.WantsSchema(row_.schema_id);
    if (!wanted.ok()) return wanted.status();
    read_bytes += row_.values.size() + Position::kBytes;
    if (!*wanted) {
      row_waits_ = false;
      continue;
    }
    const bool large = row_.values.size() > kRowBytesMax;
    const bool other_table = !page.rows.empty() && page.schema_id != row_.schema_id;
    // A row with values in parts is alone in its record, so that its index is 0.
    if (other_table || (large && !page.rows.empty())) break;
    if (page.rows.empty()) {
      page.schema_id = row_.schema_id;
      AppendFixed64Field(&page.rows, v1::Rows::kSchemaIdFieldNumber, row_.schema_id);
    }
    row.clear();
    AppendLengthField(&row, v1::Row::kPositionFieldNumber, row_.position.Text());
    if (row_.sequence != 0) {
      AppendVarintField(&row, v1::Row::kSequenceFieldNumber, row_.sequence);
    }
    std::string values;
    if (const auto status = TakeLargeValues(&values); !status.ok()) return status;
    AppendLengthHead(&page.rows, v1::Rows::kRowsFieldNumber, row.size() + values.size());
    page.rows.append(row).append(values);
    row_waits_ = false;
    if (!pieces_.empty()) break;
  }
  page.at_end = at_end_ && !row_waits_ && pieces_.empty();
  return page;
}

}  // namespace tidemark
