#include "capture/postgres/key_text.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace tidemark::capture::postgres {
namespace {

// Within an array or a row: in double quotes, whatever the text holds.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

bool IsNull(const v1::Value& value) { return value.kind_case() == v1::Value::kNull; }

std::string ListText(const v1::ListValue& list) {
  std::string text;
  const v1::ListValue* level = &list;
  for (const int32_t bound : list.lower_bounds()) {
    text += fmt::format("[{}:{}]", bound, bound + level->items_size() - 1);
    if (level->items_size() > 0 && level->items(0).has_list()) level = &level->items(0).list();
  }
  if (!text.empty()) text += "=";
  text += "{";
  for (const v1::Value& item : list.items()) {
    if (text.back() != '{') text += ",";
    if (IsNull(item)) {
      text += "NULL";
    } else {
      text += item.has_list() ? ListText(item.list()) : Quoted(InputText(item));
    }
  }
  return text + "}";
}

std::string CompositeText(const v1::CompositeValue& composite) {
  std::string text = "(";
  for (int i = 0; i < composite.fields_size(); ++i) {
    if (i > 0) text += ",";
    if (!IsNull(composite.fields(i))) text += Quoted(InputText(composite.fields(i)));
  }
  return text + ")";
}

std::string BytesText(std::string_view bytes) {
  std::string text = "\\x";
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

template <class Float>
std::string FloatText(Float number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{}", number);
}

}  // namespace

std::string InputText(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kBoolean:
      return value.boolean() ? "t" : "f";
    case v1::Value::kInteger:
      return std::to_string(value.integer());
    case v1::Value::kUnsignedInteger:
      return std::to_string(value.unsigned_integer());
    case v1::Value::kFloat32:
      return FloatText(value.float32());
    case v1::Value::kFloat64:
      return FloatText(value.float64());
    case v1::Value::kDecimal:
      return value.decimal();
    case v1::Value::kText:
      return value.text();
    case v1::Value::kBinary:
      return BytesText(value.binary());
    case v1::Value::kJson:
      return value.json();
    case v1::Value::kTemporal:
      return value.temporal();
    case v1::Value::kList:
      return ListText(value.list());
    case v1::Value::kComposite:
      return CompositeText(value.composite());
    case v1::Value::kNull:
    case v1::Value::kInParts:
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return "";
}

}  // namespace tidemark::capture::postgres
