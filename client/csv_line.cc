#include "client/csv_line.h"

#include <fmt/format.h>

#include <string>

#include "absl/strings/escaping.h"
#include "proto/value_json.h"

namespace tidemark::client {
namespace {

// JSON has no number for NaN and the infinities, and puts them into quotes.
void AppendFloat(const v1::Value& value, std::string* out) {
  std::string json;
  AppendJsonValue(value, &json);
  std::erase(json, '"');
  out->append(json);
}

void AppendValue(const v1::Value& value, std::string* out) {
  switch (value.kind_case()) {
    case v1::Value::kBoolean:
    case v1::Value::kInteger:
    case v1::Value::kUnsignedInteger:
      return AppendJsonValue(value, out);
    case v1::Value::kFloat32:
    case v1::Value::kFloat64:
      return AppendFloat(value, out);
    case v1::Value::kDecimal:
      return AppendCsvText(value.decimal(), out);
    case v1::Value::kText:
      return AppendCsvText(value.text(), out);
    case v1::Value::kJson:
      return AppendCsvText(value.json(), out);
    case v1::Value::kTemporal:
      return AppendCsvText(value.temporal(), out);
    case v1::Value::kBinary: {
      const std::string& bytes = value.binary();
      return AppendCsvText(absl::Base64Escape(absl::string_view(bytes.data(), bytes.size())), out);
    }
    case v1::Value::kList:
    case v1::Value::kComposite: {
      std::string json;
      AppendJsonValue(value, &json);
      return AppendCsvText(json, out);
    }
    case v1::Value::kNull:
    case v1::Value::kInParts:
    case v1::Value::KIND_NOT_SET:
      return;
  }
}

}  // namespace

void AppendCsvText(std::string_view text, std::string* out) {
  // An empty text is quoted, or it would read as NULL.
  const bool quoted = text.empty() || text.find_first_of("\",\r\n") != std::string_view::npos ||
                      text.front() == ' ' || text.back() == ' ';
  if (!quoted) {
    out->append(text);
    return;
  }
  out->push_back('"');
  for (const char c : text) {
    if (c == '"') out->push_back('"');
    out->push_back(c);
  }
  out->push_back('"');
}

std::string CsvHeader(const v1::TableSchema& schema) {
  std::string line = "__op,__pos,__seq,__table,__absent";
  for (const v1::Column& column : schema.columns()) {
    line.push_back(',');
    AppendCsvText(JsonColumnName(column.name()), &line);
  }
  return line;
}

std::string CsvLine(const ChangeView& change) {
  std::string fields;
  std::string absent;
  const auto& columns = change.schema().columns();
  for (int i = 0; i < columns.size(); ++i) {
    fields.push_back(',');
    const v1::Value* const value = change.op() == v1::OP_TRUNCATE ? nullptr : change.Column(i);
    if (value != nullptr) {
      AppendValue(*value, &fields);
      continue;
    }
    if (!absent.empty()) absent.push_back(' ');
    absent += JsonColumnName(columns[i].name());
  }
  std::string line =
      fmt::format("{},{},{},", OpText(change.op()), change.position(), change.sequence());
  AppendCsvText(change.table(), &line);
  line.push_back(',');
  if (!absent.empty()) AppendCsvText(absent, &line);
  return line + fields;
}

}  // namespace tidemark::client
