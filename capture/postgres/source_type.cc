#include "capture/postgres/source_type.h"

#include <algorithm>

#include "fmt/format.h"

namespace tidemark::capture::postgres {
namespace {

// Numbers that PostgreSQL adds to a declared length or precision.
constexpr int32_t kVarlenaHeader = 4;

// Bits of the fields in an interval's typmod (utils/timestamp.h), and the precision below them.
constexpr int32_t kIntervalAll = 0x7FFF;
constexpr int32_t kIntervalNoPrecision = 0xFFFF;
struct IntervalFields {
  int32_t mask;
  std::string_view text;
};
constexpr int32_t kYear = 1 << 2, kMonth = 1 << 1, kDay = 1 << 3, kHour = 1 << 10,
                  kMinute = 1 << 11, kSecond = 1 << 12;
constexpr IntervalFields kIntervals[] = {
    {kYear, " year"},
    {kMonth, " month"},
    {kDay, " day"},
    {kHour, " hour"},
    {kMinute, " minute"},
    {kSecond, " second"},
    {kYear | kMonth, " year to month"},
    {kDay | kHour, " day to hour"},
    {kDay | kHour | kMinute, " day to minute"},
    {kDay | kHour | kMinute | kSecond, " day to second"},
    {kHour | kMinute, " hour to minute"},
    {kHour | kMinute | kSecond, " hour to second"},
    {kMinute | kSecond, " minute to second"},
    {kIntervalAll, ""},
};

std::string IntervalType(int32_t typmod) {
  std::string text = "interval";
  for (const IntervalFields& fields : kIntervals) {
    if (fields.mask == ((typmod >> 16) & kIntervalAll)) text += fields.text;
  }
  const int32_t precision = typmod & 0xFFFF;
  if (precision != kIntervalNoPrecision) text += fmt::format("({})", precision);
  return text;
}

std::string NumericType(int32_t typmod) {
  const int32_t packed = typmod - kVarlenaHeader;
  // 11 bits with sign: numeric(10,-2) is legal since version 15.
  const int32_t scale = ((packed & 0x7FF) ^ 0x400) - 0x400;
  return fmt::format("numeric({},{})", (packed >> 16) & 0xFFFF, scale);
}

// time without time zone → time(3) without time zone.
std::string TimeType(std::string_view name, int32_t typmod) {
  const size_t word = name.find(' ');
  return fmt::format("{}({}){}", name.substr(0, word), typmod, name.substr(word));
}

std::string Quoted(std::string_view part) {
  const bool plain = !part.empty() && !(part[0] >= '0' && part[0] <= '9') &&
                     std::all_of(part.begin(), part.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
                     });
  if (plain) return std::string(part);
  std::string quoted = "\"";
  for (const char c : part) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string BuiltInSourceType(const BuiltInType& type, int32_t typmod) {
  // bpchar is a type of its own, without a length, and not character(1).
  if (typmod < 0) return std::string(type.name);
  switch (type.reading) {
    case TextReading::kDecimal:
      return typmod < kVarlenaHeader ? std::string(type.name) : NumericType(typmod);
    case TextReading::kTime:
    case TextReading::kTimeWithZone:
    case TextReading::kTimestamp:
    case TextReading::kTimestampWithZone:
      return TimeType(type.name, typmod);
    case TextReading::kInterval:
      return IntervalType(typmod);
    default:
      break;
  }
  if (type.name == "bpchar" && typmod > kVarlenaHeader) {
    return fmt::format("character({})", typmod - kVarlenaHeader);
  }
  if (type.name == "character varying" && typmod > kVarlenaHeader) {
    return fmt::format("{}({})", type.name, typmod - kVarlenaHeader);
  }
  if (type.name == "bit" || type.name == "bit varying") {
    return fmt::format("{}({})", type.name, typmod);
  }
  return std::string(type.name);
}

std::string QualifiedName(std::string_view schema_name, std::string_view name) {
  if (schema_name.empty() || schema_name == "pg_catalog" || schema_name == "public") {
    return Quoted(name);
  }
  return Quoted(schema_name) + "." + Quoted(name);
}

}  // namespace tidemark::capture::postgres
