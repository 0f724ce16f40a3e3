#include "client/text_line.h"

#include <fmt/format.h>

#include <iterator>

#include "absl/strings/escaping.h"
#include "proto/value_json.h"

namespace tidemark::client {
namespace {

// Not in the middle of a UTF-8 character.
std::string_view Cut(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

std::string Quoted(std::string_view text) {
  std::string quoted;
  AppendJsonString(text, &quoted);
  quoted.front() = '\'';
  quoted.back() = '\'';
  return quoted;
}

std::string ValueText(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kNull:
      return "NULL";
    case v1::Value::kDecimal:
      return value.decimal();
    case v1::Value::kText:
      return Quoted(Cut(value.text(), kTextValueBytesMax));
    case v1::Value::kJson:
      return Quoted(Cut(value.json(), kTextValueBytesMax));
    case v1::Value::kTemporal:
      return value.temporal();
    case v1::Value::kBinary:
      return "\\x" + absl::BytesToHexString(value.binary().substr(0, kTextValueBytesMax));
    default: {
      std::string text;
      AppendJsonValue(value, &text);
      return std::string(Cut(text, kTextValueBytesMax));
    }
  }
}

size_t ValueBytes(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kText:
      return value.text().size();
    case v1::Value::kJson:
      return value.json().size();
    case v1::Value::kBinary:
      return value.binary().size();
    default:
      return 0;
  }
}

}  // namespace

std::string TextLine(const ChangeView& change) {
  std::string line = fmt::format("{} {} {} {} ", change.position(), change.sequence(),
                                 OpText(change.op()), change.table());
  if (change.op() == v1::OP_TRUNCATE) {
    line.pop_back();
    return line;
  }
  for (int i = 0; i < change.schema().columns_size(); ++i) {
    const v1::Value* const value = change.Column(i);
    if (value == nullptr) continue;
    fmt::format_to(std::back_inserter(line), " {}={}", change.schema().columns(i).name(),
                   ValueText(*value));
    if (ValueBytes(*value) > kTextValueBytesMax) {
      fmt::format_to(std::back_inserter(line), "…({} bytes)", ValueBytes(*value));
    }
  }
  if (change.key_change()) line += "  (key changed)";
  return line;
}

}  // namespace tidemark::client
