// Identities keep the order of their values, and none is the prefix of another.
#include "store/identity_key.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "proto/reason.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::store {
namespace {

using v1::Value;

Value Integer(int64_t n) {
  Value value;
  value.set_integer(n);
  return value;
}
Value Text(const std::string& text) {
  Value value;
  value.set_text(text);
  return value;
}
Value Binary(const std::string& bytes) {
  Value value;
  value.set_binary(bytes);
  return value;
}
Value Float(double number) {
  Value value;
  value.set_float64(number);
  return value;
}
Value Float32(float number) {
  Value value;
  value.set_float32(number);
  return value;
}
Value Null() {
  Value value;
  value.set_null(v1::NULL_VALUE_UNSPECIFIED);
  return value;
}
Value List(const std::vector<Value>& items, int lower_bound = 1) {
  Value value;
  for (const Value& item : items) *value.mutable_list()->add_items() = item;
  if (items.empty()) value.mutable_list();
  if (lower_bound != 1) value.mutable_list()->add_lower_bounds(lower_bound);
  return value;
}
Value Composite(const std::vector<Value>& fields) {
  Value value;
  value.mutable_composite();
  for (const Value& field : fields) *value.mutable_composite()->add_fields() = field;
  return value;
}

std::string Key(const std::vector<Value>& values) {
  std::string key;
  for (const Value& value : values) {
    const absl::Status status = AppendIdentityValue(value.SerializeAsString(), &key);
    EXPECT_TRUE(status.ok()) << status << value.ShortDebugString();
  }
  return key;
}

// Each list rises strictly.
std::vector<std::vector<Value>> RisingLists() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Value> bytes = {Null(), Binary("")};
  for (int a = 0; a < 256; ++a) {
    bytes.push_back(Binary(std::string(1, static_cast<char>(a))));
    for (int b : {0, 1, 2, 127, 254, 255}) {
      bytes.push_back(Binary({static_cast<char>(a), static_cast<char>(b)}));
    }
  }
  return {
      {Null(), Integer(INT64_MIN), Integer(-256), Integer(-1), Integer(0), Integer(1), Integer(255),
       Integer(256), Integer(INT64_MAX)},
      {Null(), Float(-kInfinity), Float(-1e300), Float(-1.5), Float(-5e-324), Float(-0.0),
       Float(0.0), Float(5e-324), Float(1.5), Float(kInfinity), Float(std::nan(""))},
      {Null(), Float32(-1.5F), Float32(-0.0F), Float32(0.0F), Float32(1e-40F), Float32(3.0F)},
      bytes,
      {Null(), Text(""), Text("a"), Text(std::string("a\0", 2)), Text(std::string("a\0\0", 3)),
       Text(std::string("a\0b", 3)), Text("a\x01"), Text("aa"), Text("b"), Text("é"), Text("日本")},
      {Null(), List({}), List({Null()}), List({Integer(1)}), List({Integer(1), Null()}),
       List({Integer(1), Integer(1)}), List({Integer(2)})},
      {Null(), Composite({Text("a"), Text("b")}), Composite({Text("a"), Text("c")}),
       Composite({Text("ab"), Text("a")})},
  };
}

// proves R13
TEST(IdentityKeyTest, KeepsTheOrderOfValues) {
  for (const std::vector<Value>& list : RisingLists()) {
    for (size_t i = 1; i < list.size(); ++i) {
      EXPECT_LT(Key({list[i - 1]}), Key({list[i]}))
          << list[i - 1].ShortDebugString() << list[i].ShortDebugString();
    }
  }
}

TEST(IdentityKeyTest, NoneIsThePrefixOfAnother) {
  std::vector<Value> all;
  for (const std::vector<Value>& list : RisingLists()) {
    for (size_t i = 1; i < list.size(); ++i) all.push_back(list[i]);
  }
  std::vector<std::string> keys;
  keys.reserve(all.size());
  for (const Value& value : all) keys.push_back(Key({value}));
  for (size_t a = 0; a < keys.size(); ++a) {
    for (size_t b = 0; b < keys.size(); ++b) {
      if (a == b) continue;
      EXPECT_FALSE(keys[b].starts_with(keys[a]))
          << all[a].ShortDebugString() << " before " << all[b].ShortDebugString();
    }
  }
}

// Two columns never read as two others: the bound between them is part of the key.
TEST(IdentityKeyTest, ComparesColumnByColumn) {
  EXPECT_LT(Key({Text("a"), Text("z")}), Key({Text("ab"), Text("a")}));
  EXPECT_NE(Key({Text("a"), Text("bc")}), Key({Text("ab"), Text("c")}));
  EXPECT_NE(Key({Text(std::string("\0", 1)), Text("")}),
            Key({Text(""), Text(std::string("\0", 1))}));
  EXPECT_LT(Key({Null(), Integer(5)}), Key({Integer(-5), Null()}));
}

TEST(IdentityKeyTest, TellsApartWhatOnlyTheTypeTellsApart) {
  EXPECT_NE(Key({Text("1")}), Key({Binary("1")}));
  EXPECT_NE(Key({List({Integer(1)})}), Key({Composite({Integer(1)})}));
  EXPECT_NE(Key({List({Integer(1)})}), Key({List({Integer(1)}, 0)}));
  Value one;
  one.set_decimal("1.0");
  Value same;
  same.set_decimal("1.00");
  EXPECT_NE(Key({one}), Key({same}));
}

TEST(IdentityKeyTest, RefusesAbsentValuesAndValuesInParts) {
  std::string key;
  EXPECT_EQ(ReasonOf(AppendIdentityValue("", &key)), reason::kIdentityUnusable);
  Value parts;
  parts.mutable_in_parts()->set_size_bytes(1);
  EXPECT_EQ(ReasonOf(AppendIdentityValue(parts.SerializeAsString(), &key)),
            reason::kIdentityUnusable);
}

TEST(IdentityKeyTest, RefusesBytesThatAreNoValue) {
  const std::string integer = Integer(1).SerializeAsString();
  Value deep = Integer(1);
  for (int i = 0; i < 40; ++i) deep = List({deep});
  std::string key;
  for (const std::string& bad :
       {std::string("\xFF"), std::string("\x42\x05x"), std::string("\x08"), integer + integer,
        std::string("\x40\x01"), std::string("\x7A\x00", 2), deep.SerializeAsString()}) {
    EXPECT_EQ(ReasonOf(AppendIdentityValue(bad, &key)), reason::kStoreDamaged);
  }
}

}  // namespace
}  // namespace tidemark::store
