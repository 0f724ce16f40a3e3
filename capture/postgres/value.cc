#include "capture/postgres/value.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "capture/postgres/array_text.h"
#include "capture/postgres/composite_text.h"
#include "capture/postgres/temporal_text.h"
#include "fmt/format.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// As much of a value as an error shows.
constexpr size_t kShownBytesMax = 48;

// The beginning of a text, printable and UTF-8 whatever it holds.
std::string Beginning(std::string_view text) {
  const absl::string_view shown(text.data(), std::min(text.size(), kShownBytesMax));
  const bool is_utf8 = IsUtf8(text.substr(0, kShownBytesMax));
  return (is_utf8 ? absl::Utf8SafeCHexEscape(shown) : absl::CHexEscape(shown)) +
         (shown.size() < text.size() ? "…" : "");
}

absl::Status Malformed(const ValueType& type, std::string_view text, std::string_view problem) {
  return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kSourceProtocol,
                         fmt::format("a value of type {} {}: '{}' ({} bytes)", type.name, problem,
                                     Beginning(text), text.size()),
                         {{"type", type.name}});
}

absl::Status NotOfType(const ValueType& type, std::string_view text) {
  return Malformed(type, text, "does not read as one");
}

// The whole text, or nothing.
template <typename Number>
bool ParseNumber(std::string_view text, Number* number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

template <typename Float>
bool ParseFloat(std::string_view text, Float* number) {
  if (text == "NaN") return *number = std::numeric_limits<Float>::quiet_NaN(), true;
  if (text == "Infinity") return *number = std::numeric_limits<Float>::infinity(), true;
  if (text == "-Infinity") return *number = -std::numeric_limits<Float>::infinity(), true;
  // from_chars takes other spellings of these too.
  if (text.find_first_of("nN") != std::string_view::npos) return false;
  return ParseNumber(text, number);
}

bool IsDecimal(std::string_view text) {
  if (text == "NaN" || text == "Infinity" || text == "-Infinity") return true;
  size_t at = text.starts_with('-') ? 1 : 0;
  size_t digits = 0;
  bool has_point = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !has_point) {
      has_point = true;
    } else if (text[at] >= '0' && text[at] <= '9') {
      ++digits;
    } else {
      return false;
    }
  }
  return digits > 0;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// "\x" and lower-case digits: bytea_output = hex.
bool AppendHex(std::string_view text, ValueTag tag, std::string* out) {
  if (!text.starts_with("\\x") || text.size() % 2 != 0) return false;
  text.remove_prefix(2);
  char* to = AppendBinaryRoom(tag, text.size() / 2, out);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if ((high | low) < 0) return false;
    *to++ = static_cast<char>(high << 4 | low);
  }
  return true;
}

using Convert = bool (*)(std::string_view, TemporalText*);

absl::Status EncodeConverted(const ValueType& type, std::string_view text, Convert convert,
                             ValueTag tag, std::string* out) {
  TemporalText converted;
  if (!convert(text, &converted)) return NotOfType(type, text);
  AppendTemporal(tag, converted.text(), out);
  return absl::OkStatus();
}

absl::Status EncodePlainTemporal(const ValueType& type, std::string_view text, bool is_one,
                                 ValueTag tag, std::string* out) {
  if (!is_one) return NotOfType(type, text);
  AppendTemporal(tag, text, out);
  return absl::OkStatus();
}

// One list, whose '{' was read; recursion is as deep as the array has dimensions.
absl::Status EncodeItems(const ValueType& type, std::string_view text, ArrayTextReader* reader,
                         ValueTag tag, std::string* out) {
  OpenListValue list(tag, out);
  std::string_view item;
  while (true) {
    absl::Status status;
    switch (reader->Next(&item)) {
      case ArrayToken::kOpen:
        status = EncodeItems(type, text, reader, ValueTag::kItem, out);
        break;
      case ArrayToken::kItem:
        status = EncodeText(*type.element, item, ValueTag::kItem, out);
        break;
      case ArrayToken::kNull:
        AppendNull(ValueTag::kItem, out);
        break;
      case ArrayToken::kClose: {
        const auto bounds = reader->lower_bounds();
        if (reader->depth() == 0 && !bounds.empty()) {
          list.SetLowerBounds(bounds.data(), bounds.size());
        }
        list.Close();
        return absl::OkStatus();
      }
      case ArrayToken::kEnd:
      case ArrayToken::kMalformed:
        return NotOfType(type, text);
    }
    if (!status.ok()) return status;
  }
}

absl::Status EncodeList(const ValueType& type, std::string_view text, ValueTag tag,
                        std::string* out) {
  ArrayTextReader reader(text, type.element_delimiter);
  std::string_view item;
  if (reader.Next(&item) != ArrayToken::kOpen) return NotOfType(type, text);
  if (absl::Status status = EncodeItems(type, text, &reader, tag, out); !status.ok()) return status;
  return reader.Next(&item) == ArrayToken::kEnd ? absl::OkStatus() : NotOfType(type, text);
}

// The type was altered, and the catalog was read before or after.
absl::Status WrongFieldCount(const ValueType& type, std::string_view text) {
  return Malformed(type, text, fmt::format("does not have its {} fields", type.fields.size()));
}

absl::Status EncodeComposite(const ValueType& type, std::string_view text, ValueTag tag,
                             std::string* out) {
  OpenCompositeValue composite(tag, out);
  CompositeTextReader reader(text);
  std::string_view field;
  if (type.fields.empty() && text == "()") return composite.Close(), absl::OkStatus();
  size_t count = 0;
  for (CompositeToken token; (token = reader.Next(&field)) != CompositeToken::kEnd; ++count) {
    if (token == CompositeToken::kMalformed) return NotOfType(type, text);
    if (count == type.fields.size()) return WrongFieldCount(type, text);
    if (token == CompositeToken::kNull) {
      AppendNull(ValueTag::kItem, out);
      continue;
    }
    absl::Status status = EncodeText(*type.fields[count], field, ValueTag::kItem, out);
    if (!status.ok()) return status;
  }
  if (count != type.fields.size()) return WrongFieldCount(type, text);
  composite.Close();
  return absl::OkStatus();
}

}  // namespace

absl::Status EncodeText(const ValueType& type, std::string_view text, ValueTag tag,
                        std::string* out) {
  switch (type.reading) {
    case TextReading::kText:
      if (!IsUtf8(text)) return Malformed(type, text, "is not UTF-8");
      AppendText(tag, text, out);
      return absl::OkStatus();
    case TextReading::kInteger: {
      int64_t number = 0;
      if (!ParseNumber(text, &number)) return NotOfType(type, text);
      AppendInteger(tag, number, out);
      return absl::OkStatus();
    }
    case TextReading::kUnsignedInteger: {
      uint64_t number = 0;
      if (!ParseNumber(text, &number)) return NotOfType(type, text);
      AppendUnsignedInteger(tag, number, out);
      return absl::OkStatus();
    }
    case TextReading::kBoolean:
      if (text != "t" && text != "f") return NotOfType(type, text);
      AppendBoolean(tag, text == "t", out);
      return absl::OkStatus();
    case TextReading::kFloat32: {
      float number = 0;
      if (!ParseFloat(text, &number)) return NotOfType(type, text);
      AppendFloat32(tag, number, out);
      return absl::OkStatus();
    }
    case TextReading::kFloat64: {
      double number = 0;
      if (!ParseFloat(text, &number)) return NotOfType(type, text);
      AppendFloat64(tag, number, out);
      return absl::OkStatus();
    }
    case TextReading::kDecimal:
      if (!IsDecimal(text)) return NotOfType(type, text);
      AppendDecimal(tag, text, out);
      return absl::OkStatus();
    case TextReading::kBinary:
      return AppendHex(text, tag, out) ? absl::OkStatus() : NotOfType(type, text);
    case TextReading::kJson:
      if (!IsUtf8(text)) return Malformed(type, text, "is not UTF-8");
      AppendJson(tag, text, out);
      return absl::OkStatus();
    case TextReading::kDate:
      return EncodePlainTemporal(type, text, IsDate(text), tag, out);
    case TextReading::kTime:
      return EncodePlainTemporal(type, text, IsTime(text), tag, out);
    case TextReading::kInterval:
      return EncodePlainTemporal(type, text, IsInterval(text), tag, out);
    case TextReading::kTimeWithZone:
      return EncodeConverted(type, text, ConvertTimeWithZone, tag, out);
    case TextReading::kTimestamp:
      return EncodeConverted(type, text, ConvertTimestamp, tag, out);
    case TextReading::kTimestampWithZone:
      return EncodeConverted(type, text, ConvertTimestampWithZone, tag, out);
    case TextReading::kList:
      return EncodeList(type, text, tag, out);
    case TextReading::kComposite:
      return EncodeComposite(type, text, tag, out);
  }
  return NotOfType(type, text);
}

absl::Status EncodeText(uint32_t type_oid, std::string_view text, const TypeCatalog& catalog,
                        ValueTag tag, std::string* out) {
  return EncodeText(*catalog.Resolve(type_oid), text, tag, out);
}

}  // namespace tidemark::capture::postgres
