// Records of a stream as a server would send them, written by hand, for tests of those who read
// them. One table: public.account (id bigint primary key, owner text). Pure.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/position.h"
#include "proto/schema_id.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::testing {

inline std::string PositionText(uint64_t lsn) { return Position::Of(1, lsn).Text(); }
// Not a cursor of a server: readers must take it as it is.
inline std::string CursorText(uint64_t lsn) { return fmt::format("cursor-{}", lsn); }

inline v1::TableSchema AccountSchema() {
  v1::TableSchema schema;
  schema.set_schema_name("public");
  schema.set_table_name("account");
  v1::Column* id = schema.add_columns();
  id->set_name("id");
  id->set_source_type("bigint");
  id->set_form(v1::VALUE_FORM_INTEGER);
  v1::Column* owner = schema.add_columns();
  owner->set_name("owner");
  owner->set_source_type("text");
  owner->set_form(v1::VALUE_FORM_TEXT);
  schema.add_key_columns(0);
  schema.set_image_level(v1::IMAGE_LEVEL_KEY);
  schema.set_schema_id(SchemaId(schema));
  return schema;
}

inline v1::Value Integer(int64_t number) {
  v1::Value value;
  value.set_integer(number);
  return value;
}

inline v1::Value Text(std::string_view text) {
  v1::Value value;
  value.set_text(std::string(text));
  return value;
}

inline v1::Change AccountChange(v1::Op op, uint32_t ordinal, int64_t id,
                                std::string_view owner = {}) {
  v1::Change change;
  change.set_op(op);
  change.set_ordinal(ordinal);
  if (op == v1::OP_DELETE) {
    *change.add_key() = Integer(id);
  } else if (op != v1::OP_TRUNCATE) {
    *change.add_after() = Integer(id);
    *change.add_after() = Text(owner);
  }
  return change;
}

inline v1::SubscribeResponse OpenedRecord(std::string_view start_cursor, bool rows_follow = false) {
  v1::SubscribeResponse record;
  record.mutable_opened()->set_feed("main");
  record.mutable_opened()->set_start_cursor(std::string(start_cursor));
  record.mutable_opened()->set_rows_follow(rows_follow);
  record.mutable_opened()->mutable_longest_silence()->set_seconds(15);
  return record;
}

// public.account gets a column here.
inline v1::SubscribeResponse AlteredRecord(uint64_t position) {
  v1::SubscribeResponse record;
  v1::SchemaChange* change = record.mutable_schema_change();
  change->set_position(PositionText(position));
  change->set_before_schema_id(AccountSchema().schema_id());
  *change->mutable_after() = AccountSchema();
  change->mutable_after()->add_columns()->set_name("added");
  change->mutable_after()->set_schema_id(0);
  change->mutable_after()->set_schema_id(SchemaId(change->after()));
  return record;
}

inline v1::SubscribeResponse SchemaRecord() {
  v1::SubscribeResponse record;
  *record.mutable_table_schema() = AccountSchema();
  return record;
}

inline v1::SubscribeResponse ProgressRecord(std::string_view cursor) {
  v1::SubscribeResponse record;
  record.mutable_progress()->set_cursor(std::string(cursor));
  record.mutable_progress()->set_state(v1::FEED_STATE_LIVE);
  return record;
}

inline v1::SubscribeResponse RowRecord(int64_t id, std::string_view owner) {
  v1::SubscribeResponse record;
  record.mutable_rows()->set_schema_id(AccountSchema().schema_id());
  v1::Row* row = record.mutable_rows()->add_rows();
  row->set_position(PositionText(1));
  *row->add_values() = Integer(id);
  *row->add_values() = Text(owner);
  return record;
}

inline v1::SubscribeResponse RowsEndRecord(std::string_view cursor) {
  v1::SubscribeResponse record;
  record.mutable_rows()->set_last(true);
  record.mutable_rows()->set_cursor(std::string(cursor));
  return record;
}

// A part that is not the last.
inline v1::Transaction TransactionPart(uint64_t lsn, const std::vector<v1::Change>& changes) {
  v1::Transaction part;
  part.set_position(PositionText(lsn));
  part.set_origin(v1::ORIGIN_SOURCE);
  if (!changes.empty()) {
    v1::Run* run = part.add_runs();
    run->add_schema_ids(AccountSchema().schema_id());
    for (const v1::Change& change : changes) *run->add_changes() = change;
  }
  return part;
}

// The last part. `delivered`: changes of the whole transaction.
inline v1::Transaction LastPart(uint64_t lsn, const std::vector<v1::Change>& changes,
                                uint64_t delivered) {
  v1::Transaction part = TransactionPart(lsn, changes);
  part.set_last(true);
  part.set_cursor(CursorText(lsn));
  part.set_changes_total(delivered);
  part.set_changes_delivered(delivered);
  return part;
}

// A small transaction: insert of an account.
inline v1::Transaction InsertTransaction(uint64_t lsn, int64_t id, std::string_view owner = "Ann") {
  return LastPart(lsn, {AccountChange(v1::OP_INSERT, 0, id, owner)}, 1);
}

inline v1::SubscribeResponse BatchRecord(const std::vector<v1::Transaction>& transactions) {
  v1::SubscribeResponse record;
  for (const v1::Transaction& transaction : transactions) {
    *record.mutable_batch()->add_transactions() = transaction;
  }
  return record;
}

// A change of which `owner` comes in parts, and those parts, `piece_bytes` each.
struct ChangeInParts {
  v1::Change change;
  std::vector<v1::ValuePart> parts;
};

inline ChangeInParts AccountInParts(uint32_t ordinal, int64_t id, std::string_view owner,
                                    size_t piece_bytes) {
  ChangeInParts in_parts;
  in_parts.change = AccountChange(v1::OP_INSERT, ordinal, id);
  const std::string bytes = Text(owner).SerializeAsString();
  in_parts.change.mutable_after(1)->mutable_in_parts()->set_size_bytes(bytes.size());
  for (size_t offset = 0; offset < bytes.size(); offset += piece_bytes) {
    v1::ValuePart part;
    part.set_ordinal(ordinal);
    part.set_image(v1::IMAGE_AFTER);
    part.set_column(1);
    part.set_offset_bytes(offset);
    part.set_data(bytes.substr(offset, piece_bytes));
    part.set_last(offset + piece_bytes >= bytes.size());
    in_parts.parts.push_back(part);
  }
  return in_parts;
}

}  // namespace tidemark::testing
