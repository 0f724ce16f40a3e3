#include "store/identity_key.h"

#include <cstdint>

#include "proto/reason.h"
#include "store/wire.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::store {
namespace {

// Deeper nesting than any source type has; bounds the stack against damaged bytes.
constexpr int kNestingMax = 32;

constexpr char kNullKind = 0x01;
constexpr char kItemFollows = 0x01;
constexpr char kItemsEnd = 0x00;

absl::Status Damaged() {
  return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kStoreDamaged,
                         "a value of a row's identity is not a serialized tidemark.v1.Value");
}

absl::Status Unusable(std::string_view what) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kIdentityUnusable,
                         "the identity of a row cannot be used as a key: a value is " +
                             std::string(what) +
                             "; switch rows off for the table, or give it another key");
}

void AppendBig(uint64_t value, int bytes, std::string* key) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    key->push_back(static_cast<char>(value >> shift));
  }
}

// 00 becomes 00 FF, and 00 01 ends: bytewise order stays, and no text is the prefix of another.
void AppendEscaped(std::string_view bytes, std::string* key) {
  for (size_t begin = 0;;) {
    const size_t zero = bytes.find('\0', begin);
    key->append(bytes.substr(begin, zero - begin));
    if (zero == std::string_view::npos) break;
    key->append("\x00\xFF", 2);
    begin = zero + 1;
  }
  key->append("\x00\x01", 2);
}

// IEEE bits in an order in which memcmp is the order of the numbers.
uint64_t OrderedBits(uint64_t bits, int width) {
  const uint64_t sign = uint64_t{1} << (width - 1);
  return (bits & sign) != 0 ? ~bits : bits ^ sign;
}

absl::Status AppendValue(std::string_view value, int depth, std::string* key);

absl::Status AppendItems(std::string_view message, int depth, std::string* key) {
  WireReader reader(message);
  WireField field;
  std::string_view lower_bounds;
  while (reader.Next(&field)) {
    if (field.type != WireField::Type::kBytes) return Damaged();
    if (field.id == v1::ListValue::kLowerBoundsFieldNumber) {
      lower_bounds = field.bytes;
      continue;
    }
    key->push_back(kItemFollows);
    if (absl::Status s = AppendValue(field.bytes, depth + 1, key); !s.ok()) return s;
  }
  key->push_back(kItemsEnd);
  // A composite has none; two lists that differ in nothing else are two identities.
  AppendEscaped(lower_bounds, key);
  return reader.damaged() ? Damaged() : absl::OkStatus();
}

// The kind byte is the number of the member of tidemark.v1.Value: on disk, so for life.
absl::Status AppendField(const WireField& field, int depth, std::string* key) {
  key->push_back(static_cast<char>(field.id));
  switch (field.id) {
    case v1::Value::kNull:
      return absl::OkStatus();
    case v1::Value::kBoolean:
      key->push_back(field.number != 0 ? 1 : 0);
      return absl::OkStatus();
    case v1::Value::kInteger:
      AppendBig(field.number ^ uint64_t{1} << 63, 8, key);
      return absl::OkStatus();
    case v1::Value::kUnsignedInteger:
      AppendBig(field.number, 8, key);
      return absl::OkStatus();
    case v1::Value::kFloat32:
      AppendBig(OrderedBits(field.number, 32), 4, key);
      return absl::OkStatus();
    case v1::Value::kFloat64:
      AppendBig(OrderedBits(field.number, 64), 8, key);
      return absl::OkStatus();
    case v1::Value::kDecimal:
    case v1::Value::kText:
    case v1::Value::kBinary:
    case v1::Value::kJson:
    case v1::Value::kTemporal:
      AppendEscaped(field.bytes, key);
      return absl::OkStatus();
    case v1::Value::kList:
    case v1::Value::kComposite:
      return AppendItems(field.bytes, depth, key);
    case v1::Value::kInParts:
      return Unusable("too large for one message");
    default:
      return Damaged();
  }
}

WireField::Type TypeOf(uint32_t member) {
  switch (member) {
    case v1::Value::kNull:
    case v1::Value::kBoolean:
    case v1::Value::kInteger:
    case v1::Value::kUnsignedInteger:
      return WireField::Type::kVarint;
    case v1::Value::kFloat32:
      return WireField::Type::kFixed32;
    case v1::Value::kFloat64:
      return WireField::Type::kFixed64;
    default:
      return WireField::Type::kBytes;
  }
}

absl::Status AppendValue(std::string_view value, int depth, std::string* key) {
  static_assert(kNullKind == v1::Value::kNull, "NULL sorts before every value");
  if (value.empty()) return Unusable("absent");
  if (depth > kNestingMax) return Damaged();
  WireReader reader(value);
  WireField field;
  if (!reader.Next(&field) || field.type != TypeOf(field.id)) return Damaged();
  if (absl::Status s = AppendField(field, depth, key); !s.ok()) return s;
  // Exactly one member is set.
  return reader.Next(&field) || reader.damaged() ? Damaged() : absl::OkStatus();
}

}  // namespace

absl::Status AppendIdentityValue(std::string_view serialized_value, std::string* key) {
  return AppendValue(serialized_value, 0, key);
}

}  // namespace tidemark::store
