#include "capture/postgres/row_touches.h"

#include <string>
#include <string_view>
#include <utility>

namespace tidemark::capture::postgres {
namespace {

MovedRows::Table NameOf(const Relation& relation) {
  return {relation.description.schema_name, relation.description.table_name};
}

}  // namespace

std::vector<uint32_t> ColumnsLeftOut(const RowTuples& tuples) {
  std::vector<uint32_t> columns;
  for (size_t i = 0; i < tuples.row.size(); ++i) {
    if (tuples.row[i].kind != ColumnKind::kUnchanged) continue;
    const bool before = i < tuples.old_row.size() && tuples.old_row[i].kind == ColumnKind::kText;
    if (!before) columns.push_back(static_cast<uint32_t>(i));
  }
  return columns;
}

void TouchWindow(const Relation& relation, const RowTuples& tuples, bool rows_known,
                 const KnownRows& known, const MovedRows& moved, RowEncoder* encoder,
                 ChunkWindow* window) {
  std::vector<uint32_t> left_out;
  if (!rows_known) left_out = ColumnsLeftOut(tuples);
  const bool moves = !tuples.old_row.empty();
  // Into the part that is read, and nobody notes it yet.
  if (!left_out.empty() && moves && !moved.Watches(NameOf(relation))) return window->Spoil();
  for (const Tuple& row : {tuples.row, tuples.old_row}) {
    if (row.empty()) continue;
    const auto values = encoder->KeyValues(relation.shape, row, tuples.old_row);
    if (!values.ok()) return window->Spoil();
    const absl::StatusOr<std::string> key =
        known.EncodeKey(std::vector<std::string_view>(values->begin(), values->end()));
    if (!key.ok()) return window->Spoil();
    // A chunk may have another row where one moved to: that is read by its key (NoteMove).
    if (left_out.empty() || moves) {
      window->Touch(*key);
    } else {
      window->TouchLeavingOut(*key, relation.shape.schema_id, left_out);
    }
  }
}

void NoteMove(const Relation& relation, const RowTuples& tuples, MovedRows* moved) {
  const Tuple& row = tuples.row;
  const Tuple& old_row = tuples.old_row;
  // A row of another width is refused.
  if (old_row.size() != row.size() || row.size() != relation.shape.types.size()) return;
  const MovedRows::Table table = NameOf(relation);
  if (!moved->Watches(table) || ColumnsLeftOut(tuples).empty()) return;
  MovedRows::Key key;
  for (const uint32_t column : relation.shape.key_columns) {
    const bool from_old = row[column].kind == ColumnKind::kUnchanged;
    const TupleColumn& value = from_old ? old_row[column] : row[column];
    if (value.kind != ColumnKind::kText) return moved->AddAny(table);
    key.emplace_back(value.bytes);
  }
  moved->Add(table, std::move(key));
}

}  // namespace tidemark::capture::postgres
