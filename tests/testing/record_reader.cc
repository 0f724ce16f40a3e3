#include "tests/testing/record_reader.h"

#include <fmt/format.h>

#include <utility>

namespace tidemark::testing {
namespace {

absl::Status Broken(const std::string& what) { return absl::DataLossError(what); }

bool AnyInParts(const v1::Change& change) {
  for (const auto* image : {&change.after(), &change.before(), &change.key()}) {
    for (const v1::Value& value : *image) {
      if (value.has_in_parts()) return true;
    }
  }
  return false;
}

std::string OpName(v1::Op op) {
  std::string name = v1::Op_Name(op).substr(3);
  for (char& c : name) c = static_cast<char>(tolower(c));
  return name;
}

bool IsSet(const v1::Value& value) { return value.kind_case() != v1::Value::KIND_NOT_SET; }

void Put(const std::string& name, const v1::Value& value, Columns* columns) {
  if (!IsSet(value)) return;
  (*columns)[name] = value.kind_case() == v1::Value::kNull
                         ? std::nullopt
                         : std::optional<std::string>(ValueText(value));
}

Columns ImageColumns(const v1::TableSchema& schema,
                     const google::protobuf::RepeatedPtrField<v1::Value>& image) {
  Columns columns;
  for (int i = 0; i < image.size(); ++i) Put(schema.columns(i).name(), image[i], &columns);
  return columns;
}

absl::Status CheckShape(const v1::TableSchema& schema, const v1::Change& change) {
  for (const auto* image : {&change.after(), &change.before()}) {
    if (!image->empty() && image->size() != schema.columns_size()) {
      return Broken(fmt::format("an image of {} has {} values for {} columns", schema.table_name(),
                                image->size(), schema.columns_size()));
    }
  }
  if (!change.key().empty() &&
      (change.op() != v1::OP_DELETE || change.key_size() != schema.key_columns_size())) {
    return Broken(fmt::format("a {} of {} has {} key values for {} key columns",
                              OpName(change.op()), schema.table_name(), change.key_size(),
                              schema.key_columns_size()));
  }
  const bool has_row = change.op() != v1::OP_DELETE && change.op() != v1::OP_TRUNCATE;
  if (has_row == change.after().empty() && schema.columns_size() > 0) {
    return Broken(fmt::format("a {} of {} has {} values after it", OpName(change.op()),
                              schema.table_name(), change.after_size()));
  }
  return absl::OkStatus();
}

RecordedChange Flatten(const v1::TableSchema& schema, const v1::Change& change,
                       const std::string& position, uint64_t sequence) {
  RecordedChange flat;
  flat.position = position;
  flat.sequence = sequence;
  flat.op = OpName(change.op());
  flat.table = schema.schema_name() + "." + schema.table_name();
  flat.key_change = change.key_change();
  flat.columns = ImageColumns(schema, change.after());
  flat.before = ImageColumns(schema, change.before());
  for (int i = 0; i < change.after_size(); ++i) {
    if (!IsSet(change.after(i))) flat.absent.push_back(schema.columns(i).name());
  }
  for (int i = 0; i < schema.key_columns_size(); ++i) {
    const int column = static_cast<int>(schema.key_columns(i));
    const std::string& name = schema.columns(column).name();
    if (i < change.key_size()) Put(name, change.key(i), &flat.key);
    if (column < change.after_size()) Put(name, change.after(column), &flat.key);
  }
  if (change.op() == v1::OP_DELETE) flat.columns = flat.key;
  return flat;
}

std::string Escaped(const std::string& text, bool quote) {
  if (!quote) return text;
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped + "\"";
}

// Inside another value PostgreSQL prints a bool as t or f.
std::string InnerText(const v1::Value& value) {
  if (value.kind_case() == v1::Value::kBoolean) return value.boolean() ? "t" : "f";
  return ValueText(value);
}

std::string ItemText(const v1::Value& item) {
  if (item.kind_case() == v1::Value::kNull) return "NULL";
  const std::string text = InnerText(item);
  if (item.has_list()) return text;
  const bool quote = text.empty() || text == "NULL" || text == "null" ||
                     text.find_first_of("{}\", \\\t\n") != std::string::npos;
  return Escaped(text, quote);
}

int Length(const v1::ListValue& list) { return list.items_size(); }

std::string ListText(const v1::ListValue& list) {
  std::string text;
  const v1::ListValue* level = &list;
  for (const int32_t bound : list.lower_bounds()) {
    text += fmt::format("[{}:{}]", bound, bound + Length(*level) - 1);
    if (level->items_size() > 0 && level->items(0).has_list()) level = &level->items(0).list();
  }
  if (!text.empty()) text += "=";
  text += "{";
  for (int i = 0; i < list.items_size(); ++i) {
    if (i > 0) text += ",";
    text += ItemText(list.items(i));
  }
  return text + "}";
}

std::string CompositeText(const v1::CompositeValue& composite) {
  std::string text = "(";
  for (int i = 0; i < composite.fields_size(); ++i) {
    if (i > 0) text += ",";
    const v1::Value& field = composite.fields(i);
    if (field.kind_case() == v1::Value::kNull) continue;
    const std::string value = InnerText(field);
    text += Escaped(value, value.empty() || value.find_first_of("()\", \\") != std::string::npos);
  }
  return text + ")";
}

// 2026-03-01T12:00:00Z to 2026-03-01 12:00:00+00.
std::string TemporalText(std::string text) {
  const size_t t = text.find('T');
  if (t != std::string::npos && t > 0 && isdigit(static_cast<unsigned char>(text[0]))) {
    text[t] = ' ';
  }
  const size_t z = text.find('Z');
  if (z != std::string::npos) text.replace(z, 1, "+00");
  return text;
}

}  // namespace

std::string ValueText(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kBoolean:
      return value.boolean() ? "true" : "false";
    case v1::Value::kInteger:
      return std::to_string(value.integer());
    case v1::Value::kUnsignedInteger:
      return std::to_string(value.unsigned_integer());
    case v1::Value::kFloat32:
      return fmt::format("{}", value.float32());
    case v1::Value::kFloat64:
      return fmt::format("{}", value.float64());
    case v1::Value::kDecimal:
      return value.decimal();
    case v1::Value::kText:
      return value.text();
    case v1::Value::kJson:
      return value.json();
    case v1::Value::kTemporal:
      return TemporalText(value.temporal());
    case v1::Value::kBinary: {
      std::string text = "\\x";
      for (const char c : value.binary()) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
      return text;
    }
    case v1::Value::kList:
      return ListText(value.list());
    case v1::Value::kComposite:
      return CompositeText(value.composite());
    default:
      return "";
  }
}

absl::Status RecordReader::Read(const v1::SubscribeResponse& record) {
  if (record.has_table_schema()) {
    const v1::TableSchema& schema = record.table_schema();
    const auto [known, added] = schemas_.try_emplace(schema.schema_id(), schema);
    if (!added && known->second.SerializeAsString() != schema.SerializeAsString()) {
      return Broken(fmt::format("schema {:016x} changed its content", schema.schema_id()));
    }
  }
  if (record.has_rows()) return ReadRows(record.rows());
  for (const v1::Transaction& part : record.batch().transactions()) {
    if (absl::Status read = ReadTransaction(part); !read.ok()) return read;
  }
  return absl::OkStatus();
}

absl::Status RecordReader::ReadTransaction(const v1::Transaction& part) {
  const bool inside = !transactions_.empty() && !transactions_.back().finished;
  if (inside && transactions_.back().position != part.position()) {
    return Broken(fmt::format("transaction {} stands between the parts of {}", part.position(),
                              transactions_.back().position));
  }
  if (!inside) {
    transactions_.emplace_back();
    transactions_.back().position = part.position();
    transactions_.back().source_transaction_id = part.source_transaction_id();
  }
  for (const v1::Run& run : part.runs()) {
    if (absl::Status read = ReadRun(run, part.position()); !read.ok()) return read;
  }
  return FinishTransaction(part);
}

absl::Status RecordReader::FinishTransaction(const v1::Transaction& part) {
  if (!part.last()) {
    if (part.cursor().empty() && part.changes_total() == 0) return absl::OkStatus();
    return Broken(
        fmt::format("a part of {} that is not the last has a cursor or totals", part.position()));
  }
  if (unfinished_set_) {
    return Broken(fmt::format("transaction {} ends before the last part of a value of change {}",
                              part.position(), unfinished_.sequence));
  }
  RecordedTransaction& transaction = transactions_.back();
  transaction.finished = true;
  transaction.cursor = part.cursor();
  transaction.changes_total = part.changes_total();
  transaction.changes_delivered = part.changes_delivered();
  return absl::OkStatus();
}

absl::Status RecordReader::ReadRun(const v1::Run& run, const std::string& position) {
  for (const v1::Change& change : run.changes()) {
    if (unfinished_set_) {
      return Broken(fmt::format("a change of {} comes before the last part of a value of change {}",
                                position, unfinished_.sequence));
    }
    if (change.table() >= static_cast<uint32_t>(run.schema_ids_size())) {
      return Broken(fmt::format("a change of {} names table {} of {}", position, change.table(),
                                run.schema_ids_size()));
    }
    const uint64_t sequence = run.first_sequence() + change.ordinal();
    unfinished_ = {
        change, run.schema_ids(static_cast<int>(change.table())), position, sequence, sequence, {}};
    unfinished_set_ = true;
    if (AnyInParts(change)) continue;
    if (absl::Status done = FinishChange(&transactions_.back().changes); !done.ok()) return done;
  }
  for (const v1::ValuePart& part : run.value_parts()) {
    absl::Status read = ReadPart(part, run.first_sequence() + part.ordinal());
    if (!read.ok()) return read;
    if (AnyInParts(unfinished_.change)) continue;
    if (absl::Status done = FinishChange(&transactions_.back().changes); !done.ok()) return done;
  }
  return absl::OkStatus();
}

absl::Status RecordReader::ReadRows(const v1::Rows& rows) {
  if (rows_finished_) return Broken("rows come behind the last of the rows");
  for (int i = 0; i < rows.rows_size(); ++i) {
    if (unfinished_set_) return Broken("a row comes before the last part of the one before it");
    const v1::Row& row = rows.rows(i);
    v1::Change change;
    change.set_op(v1::OP_READ);
    *change.mutable_after() = row.values();
    unfinished_ = {change,         rows.schema_id(),         row.position(),
                   row.sequence(), static_cast<uint64_t>(i), {}};
    unfinished_set_ = true;
    if (AnyInParts(change)) continue;
    if (absl::Status done = FinishChange(&rows_); !done.ok()) return done;
  }
  for (const v1::ValuePart& part : rows.value_parts()) {
    if (absl::Status read = ReadPart(part, part.ordinal()); !read.ok()) return read;
    if (AnyInParts(unfinished_.change)) continue;
    if (absl::Status done = FinishChange(&rows_); !done.ok()) return done;
  }
  if (!rows.last()) return absl::OkStatus();
  if (unfinished_set_) return Broken("the rows end before the last part of a value");
  if (rows.cursor().empty()) return Broken("the rows end without a cursor");
  rows_finished_ = true;
  return absl::OkStatus();
}

absl::Status RecordReader::ReadPart(const v1::ValuePart& part, uint64_t label) {
  if (!unfinished_set_ || unfinished_.label != label) {
    return Broken(fmt::format("a value part belongs to change {}, which waits for none", label));
  }
  v1::Change& change = unfinished_.change;
  auto* const image = part.image() == v1::IMAGE_AFTER    ? change.mutable_after()
                      : part.image() == v1::IMAGE_BEFORE ? change.mutable_before()
                                                         : change.mutable_key();
  const int column = static_cast<int>(part.column());
  if (column >= image->size() || !(*image)[column].has_in_parts()) {
    return Broken(fmt::format("a value part names column {}, which is not in parts", column));
  }
  std::string& bytes = unfinished_.parts[{part.image(), part.column()}];
  if (part.offset_bytes() != bytes.size()) {
    return Broken(fmt::format("a value part begins at {}, where {} bytes are there",
                              part.offset_bytes(), bytes.size()));
  }
  bytes += part.data();
  if (!part.last()) return absl::OkStatus();
  v1::Value whole;
  if (bytes.size() != (*image)[column].in_parts().size_bytes() || !whole.ParseFromString(bytes)) {
    return Broken(fmt::format("the parts of column {} add up to {} bytes that are no value", column,
                              bytes.size()));
  }
  (*image)[column] = std::move(whole);
  return absl::OkStatus();
}

absl::Status RecordReader::FinishChange(std::vector<RecordedChange>* out) {
  unfinished_set_ = false;
  const auto schema = schemas_.find(unfinished_.schema_id);
  if (schema == schemas_.end()) {
    return Broken(
        fmt::format("schema {:016x} is used before it is announced", unfinished_.schema_id));
  }
  if (absl::Status shape = CheckShape(schema->second, unfinished_.change); !shape.ok())
    return shape;
  out->push_back(
      Flatten(schema->second, unfinished_.change, unfinished_.position, unfinished_.sequence));
  return absl::OkStatus();
}

}  // namespace tidemark::testing
