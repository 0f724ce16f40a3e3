#include "store/value_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "absl/strings/escaping.h"

namespace tidemark::store {
namespace {

template <typename Float>
void AppendFloat(Float value, std::string* out) {
  if (std::isnan(value)) {
    out->append("\"NaN\"");
  } else if (std::isinf(value)) {
    out->append(value < 0 ? "\"-Infinity\"" : "\"Infinity\"");
  } else {
    fmt::format_to(std::back_inserter(*out), "{}", value);
  }
}

void AppendArray(const google::protobuf::RepeatedPtrField<v1::Value>& items, std::string* out) {
  out->push_back('[');
  for (int i = 0; i < items.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendJsonValue(items[i], out);
  }
  out->push_back(']');
}

void AppendList(const v1::ListValue& list, std::string* out) {
  if (list.lower_bounds_size() == 0) return AppendArray(list.items(), out);
  fmt::format_to(std::back_inserter(*out),
                 "{{\"lower_bounds\":[{}],\"items\":", fmt::join(list.lower_bounds(), ","));
  AppendArray(list.items(), out);
  out->push_back('}');
}

}  // namespace

std::string OpText(v1::Op op) {
  switch (op) {
    case v1::OP_INSERT:
      return "insert";
    case v1::OP_UPDATE:
      return "update";
    case v1::OP_DELETE:
      return "delete";
    case v1::OP_TRUNCATE:
      return "truncate";
    case v1::OP_READ:
      return "read";
    default:
      return fmt::format("op_{}", static_cast<int>(op));
  }
}

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

void AppendJsonValue(const v1::Value& value, std::string* out) {
  switch (value.kind_case()) {
    case v1::Value::kNull:
      out->append("null");
      return;
    case v1::Value::kBoolean:
      out->append(value.boolean() ? "true" : "false");
      return;
    case v1::Value::kInteger:
      fmt::format_to(std::back_inserter(*out), "{}", value.integer());
      return;
    case v1::Value::kUnsignedInteger:
      fmt::format_to(std::back_inserter(*out), "{}", value.unsigned_integer());
      return;
    case v1::Value::kFloat32:
      return AppendFloat(value.float32(), out);
    case v1::Value::kFloat64:
      return AppendFloat(value.float64(), out);
    case v1::Value::kDecimal:
      return AppendJsonString(value.decimal(), out);
    case v1::Value::kText:
      return AppendJsonString(value.text(), out);
    case v1::Value::kBinary:
      return AppendJsonString(std::string(absl::Base64Escape(value.binary())), out);
    case v1::Value::kJson:
      return AppendJsonString(value.json(), out);
    case v1::Value::kTemporal:
      return AppendJsonString(value.temporal(), out);
    case v1::Value::kList:
      return AppendList(value.list(), out);
    case v1::Value::kComposite:
      return AppendArray(value.composite().fields(), out);
    case v1::Value::kInParts:
      fmt::format_to(std::back_inserter(*out), "{{\"in_parts\":{}}}",
                     value.in_parts().size_bytes());
      return;
    case v1::Value::KIND_NOT_SET:
      out->append("{\"absent\":true}");
  }
}

void AppendJsonColumns(const v1::TableSchema& schema,
                       const google::protobuf::RepeatedPtrField<v1::Value>& values,
                       std::string* out) {
  for (int i = 0; i < values.size() && i < schema.columns_size(); ++i) {
    if (values[i].kind_case() == v1::Value::KIND_NOT_SET) continue;
    out->push_back(',');
    const std::string& name = schema.columns(i).name();
    AppendJsonString(name.starts_with("__") ? "_" + name : name, out);
    out->push_back(':');
    AppendJsonValue(values[i], out);
  }
}

std::string PlainValue(const v1::Value& value) {
  if (value.kind_case() == v1::Value::KIND_NOT_SET) return "-";
  std::string text;
  AppendJsonValue(value, &text);
  return text;
}

}  // namespace tidemark::store
