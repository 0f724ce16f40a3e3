#include "proto/value_json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "absl/strings/escaping.h"

namespace tidemark {
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

void AppendControl(unsigned char c, std::string* out) {
  switch (c) {
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    default:
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", c);
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
      AppendControl(static_cast<unsigned char>(c), out);
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
      out->append(fmt::format_int(value.integer()).c_str());
      return;
    case v1::Value::kUnsignedInteger:
      out->append(fmt::format_int(value.unsigned_integer()).c_str());
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

std::string JsonColumnName(std::string_view name) {
  return name.starts_with("__") ? "_" + std::string(name) : std::string(name);
}

void AppendJsonColumn(std::string_view name, const v1::Value& value, std::string* out) {
  out->push_back(',');
  AppendJsonString(JsonColumnName(name), out);
  out->push_back(':');
  AppendJsonValue(value, out);
}

}  // namespace tidemark
