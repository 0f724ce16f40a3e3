#include "capture/changelog/transaction_assembler.h"

#include <fmt/format.h>

#include <algorithm>

#include "capture/value_writer.h"
#include "proto/reason.h"
#include "proto/schema_id.h"

namespace tidemark::capture::changelog {
namespace {

constexpr char kKeyColumn[] = "key";
constexpr char kRowColumn[] = "row";
constexpr char kJsonType[] = "json";

v1::TableSchema SchemaOf(std::string_view schema, std::string_view table, bool has_old_rows) {
  v1::TableSchema made;
  made.set_schema_name(std::string(schema));
  made.set_table_name(std::string(table));
  for (const char* name : {kKeyColumn, kRowColumn}) {
    v1::Column* column = made.add_columns();
    column->set_name(name);
    column->set_source_type(kJsonType);
    column->set_form(v1::VALUE_FORM_JSON);
  }
  made.add_key_columns(0);
  made.set_image_level(has_old_rows ? v1::IMAGE_LEVEL_FULL : v1::IMAGE_LEVEL_KEY);
  made.set_schema_id(SchemaId(made));
  return made;
}

absl::Status Unusable(const ChangelogRow& row, const std::string& what) {
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kChangelogUnusable,
      fmt::format("the changelog's row {} (transaction {}, table {}) {}; correct or delete that "
                  "row, and what writes such rows",
                  row.seq, row.xid, TableNameText(row.schema, row.table), what),
      {{"seq", std::to_string(row.seq)}, {"xid", std::to_string(row.xid)}});
}

void AppendText(ValueTag tag, const std::optional<std::string_view>& text, std::string* out) {
  if (text) {
    AppendJson(tag, *text, out);
  } else {
    AppendNull(tag, out);
  }
}

std::string Image(ValueTag tag, const std::optional<std::string_view>& key,
                  const std::optional<std::string_view>& row) {
  std::string image;
  AppendText(tag, key, &image);
  AppendText(tag, row, &image);
  return image;
}

absl::Status CheckTexts(const ChangelogRow& row) {
  for (const auto& text : {row.key, row.row, row.old_row}) {
    if (text && !IsUtf8(*text)) return Unusable(row, "holds text that is not UTF-8");
  }
  if (!IsUtf8(row.schema) || !IsUtf8(row.table) || row.table.empty()) {
    return Unusable(row, "names no table");
  }
  return absl::OkStatus();
}

}  // namespace

v1::Op OpOf(std::string_view text) {
  struct Word {
    std::string_view word;
    v1::Op op;
  };
  static constexpr Word kWords[] = {{"insert", v1::OP_INSERT},
                                    {"update", v1::OP_UPDATE},
                                    {"delete", v1::OP_DELETE},
                                    {"truncate", v1::OP_TRUNCATE}};
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const Word& word : kWords) {
    if (lower == word.word || lower == word.word.substr(0, 1)) return word.op;
  }
  return v1::OP_UNSPECIFIED;
}

TransactionAssembler::TransactionAssembler(uint32_t generation, bool has_old_rows,
                                           std::vector<TablePattern> before_images)
    : generation_(generation),
      has_old_rows_(has_old_rows),
      before_images_(std::move(before_images)) {
  builder_.Begin();
}

const TransactionAssembler::Table& TransactionAssembler::Find(const ChangelogRow& row,
                                                              std::vector<SourceEvent>* events) {
  std::pair<std::string, std::string> name(row.schema, row.table);
  const auto known = tables_.find(name);
  if (known != tables_.end()) return known->second;
  Table table;
  v1::TableSchema schema = SchemaOf(row.schema, row.table, has_old_rows_);
  table.schema_id = schema.schema_id();
  table.wants_before = std::any_of(
      before_images_.begin(), before_images_.end(),
      [&](const TablePattern& pattern) { return pattern.Matches(row.schema, row.table); });
  events->push_back(SchemaSeen{std::move(schema)});
  return tables_.emplace(std::move(name), table).first->second;
}

absl::Status TransactionAssembler::Add(const ChangelogRow& row, std::vector<SourceEvent>* events) {
  const v1::Op op = OpOf(row.op);
  if (op == v1::OP_UNSPECIFIED) {
    return Unusable(row, fmt::format("has the op '{}' (expected insert, update, delete, truncate "
                                     "or their first letters)",
                                     row.op.substr(0, 32)));
  }
  if (absl::Status texts = CheckTexts(row); !texts.ok()) return texts;
  if (op != v1::OP_TRUNCATE && !row.key) return Unusable(row, "has no key");
  if (absl::Status added = AddChange(op, Find(row, events), row); !added.ok()) return added;
  ++rows_;
  bytes_ +=
      row.key.value_or("").size() + row.row.value_or("").size() + row.old_row.value_or("").size();
  changed_at_us_ = std::max(changed_at_us_, row.changed_at_us.value_or(0));
  if (builder_.PassesBound()) HandOver(events);
  return absl::OkStatus();
}

absl::Status TransactionAssembler::AddChange(v1::Op op, const Table& table,
                                             const ChangelogRow& row) {
  ChangeImages images;
  std::string after;
  std::string before;
  std::string key;
  const bool is_new_half = op == v1::OP_INSERT && row.old_row;
  if (op == v1::OP_INSERT || op == v1::OP_UPDATE) after = Image(ValueTag::kAfter, row.key, row.row);
  if (op == v1::OP_DELETE) AppendText(ValueTag::kKey, row.key, &key);
  if (row.old_row && !is_new_half && op != v1::OP_TRUNCATE) {
    before = Image(ValueTag::kBefore, row.key, row.old_row);
  }
  images.key_change = is_new_half || (op == v1::OP_DELETE && row.row);
  images.after = after;
  images.before = before;
  images.key = key;
  images.has_gaps =
      table.wants_before && before.empty() && (op == v1::OP_UPDATE || op == v1::OP_DELETE);
  builder_.AddChange(op, table.schema_id, images);
  return absl::OkStatus();
}

void TransactionAssembler::HandOver(std::vector<SourceEvent>* events) {
  std::vector<EncodedRun> runs = builder_.TakeFullRuns();
  if (runs.empty()) return;
  if (handle_ == 0) handle_ = next_handle_++;
  events->push_back(LargePart{handle_, std::move(runs)});
}

void TransactionAssembler::End(uint64_t number, uint64_t xid, int64_t clock_us,
                               std::vector<SourceEvent>* events) {
  v1::CommitRecord record;
  // The last change is the nearest to the commit that the changelog knows.
  record.set_commit_time_us(changed_at_us_ > 0 ? changed_at_us_ : clock_us);
  record.set_source_transaction_id(std::to_string(xid));
  record.set_origin(v1::ORIGIN_SOURCE);
  const Position position = Position::Of(generation_, number);
  EncodedTransaction transaction = builder_.Finish(position, std::move(record));
  if (handle_ != 0) {
    if (!transaction.runs.empty()) {
      events->push_back(LargePart{handle_, std::move(transaction.runs)});
    }
    events->push_back(LargeCommitted{handle_, position, std::move(transaction.record)});
  } else {
    events->push_back(TransactionRead{std::move(transaction)});
  }
  builder_.Begin();
  handle_ = 0;
  rows_ = 0;
  changed_at_us_ = 0;
}

}  // namespace tidemark::capture::changelog
