#include "client/change_view.h"

#include "proto/table_name.h"

namespace tidemark::client {
namespace {

const ChangeView::Values& NoValues() {
  static const ChangeView::Values* const none = new ChangeView::Values;
  return *none;
}

const v1::Value* Present(const ChangeView::Values& values, int index) {
  if (index >= values.size() || IsAbsent(values[index])) return nullptr;
  return &values[index];
}

}  // namespace

ChangeView::ChangeView(const v1::TableSchema& schema, std::string_view position, uint64_t sequence,
                       const v1::Change& change)
    : schema_(&schema),
      position_(position),
      sequence_(sequence),
      op_(change.op()),
      key_change_(change.key_change()),
      after_(&change.after()),
      before_(&change.before()),
      key_(&change.key()) {}

ChangeView::ChangeView(const v1::TableSchema& schema, const v1::Row& row)
    : schema_(&schema),
      position_(row.position()),
      sequence_(row.sequence()),
      op_(v1::OP_READ),
      after_(&row.values()),
      before_(&NoValues()),
      key_(&NoValues()) {}

std::string ChangeView::table() const {
  return TableNameText(schema_->schema_name(), schema_->table_name());
}

std::vector<const v1::Value*> ChangeView::Key() const {
  std::vector<const v1::Value*> key;
  if (op_ == v1::OP_TRUNCATE) return key;
  for (const uint32_t column : schema_->key_columns()) {
    key.push_back(Column(static_cast<int>(column)));
  }
  return key;
}

const v1::Value* ChangeView::Column(std::string_view name) const {
  for (int i = 0; i < schema_->columns_size(); ++i) {
    if (schema_->columns(i).name() == name) return Column(i);
  }
  return nullptr;
}

const v1::Value* ChangeView::Column(int index) const {
  if (op_ != v1::OP_DELETE) return Present(*after_, index);
  for (int i = 0; i < key_->size() && i < schema_->key_columns_size(); ++i) {
    if (static_cast<int>(schema_->key_columns(i)) == index) return Present(*key_, i);
  }
  return Present(*before_, index);
}

}  // namespace tidemark::client
