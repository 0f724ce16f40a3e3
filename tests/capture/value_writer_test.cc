#include "capture/value_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tidemark/v1/change.pb.h"

namespace tidemark::capture {
namespace {

// The same image, once by hand and once by protobuf.
void ExpectSame(const std::string& written, const std::vector<v1::Value>& values) {
  v1::Change change;
  for (const v1::Value& value : values) *change.add_after() = value;
  EXPECT_EQ(written, change.SerializeAsString());
}

v1::Value Made(const std::function<void(v1::Value*)>& set) {
  v1::Value value;
  set(&value);
  return value;
}

TEST(ValueWriter, WritesWhatProtobufWrites) {
  std::string out;
  std::vector<v1::Value> values;
  const auto expect = [&](const std::function<void(v1::Value*)>& set) {
    values.push_back(Made(set));
  };
  AppendAbsent(ValueTag::kAfter, &out);
  expect([](v1::Value*) {});
  AppendNull(ValueTag::kAfter, &out);
  expect([](v1::Value* v) { v->set_null(v1::NULL_VALUE_UNSPECIFIED); });
  for (const bool boolean : {true, false}) {
    AppendBoolean(ValueTag::kAfter, boolean, &out);
    expect([=](v1::Value* v) { v->set_boolean(boolean); });
  }
  for (const int64_t number :
       {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{127}, int64_t{128},
        std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    AppendInteger(ValueTag::kAfter, number, &out);
    expect([=](v1::Value* v) { v->set_integer(number); });
  }
  for (const uint64_t number : {uint64_t{0}, uint64_t{1} << 63, UINT64_MAX}) {
    AppendUnsignedInteger(ValueTag::kAfter, number, &out);
    expect([=](v1::Value* v) { v->set_unsigned_integer(number); });
  }
  for (const double number : {0.0, -0.0, 1.5, -HUGE_VAL, 5e-324, std::nan("")}) {
    AppendFloat32(ValueTag::kAfter, static_cast<float>(number), &out);
    expect([=](v1::Value* v) { v->set_float32(static_cast<float>(number)); });
    AppendFloat64(ValueTag::kAfter, number, &out);
    expect([=](v1::Value* v) { v->set_float64(number); });
  }
  // Around the sizes at which a length takes one byte more.
  for (const size_t size : {0, 1, 123, 124, 125, 126, 127, 128, 16379, 16383, 16384, 300'000}) {
    const std::string text(size, 'x');
    AppendDecimal(ValueTag::kAfter, text, &out);
    expect([&](v1::Value* v) { v->set_decimal(text); });
    AppendText(ValueTag::kAfter, text, &out);
    expect([&](v1::Value* v) { v->set_text(text); });
    AppendSerialized(ValueTag::kAfter, values.back().SerializeAsString(), &out);
    expect([&](v1::Value* v) { v->set_text(text); });
    AppendBinary(ValueTag::kAfter, text, &out);
    expect([&](v1::Value* v) { v->set_binary(text); });
    AppendJson(ValueTag::kAfter, text, &out);
    expect([&](v1::Value* v) { v->set_json(text); });
    AppendTemporal(ValueTag::kAfter, text, &out);
    expect([&](v1::Value* v) { v->set_temporal(text); });
    text.copy(AppendBinaryRoom(ValueTag::kAfter, size, &out), size);
    expect([&](v1::Value* v) { v->set_binary(text); });
  }
  for (const uint64_t size : {uint64_t{0}, uint64_t{1} << 30}) {
    AppendInParts(ValueTag::kAfter, size, &out);
    expect([=](v1::Value* v) { v->mutable_in_parts()->set_size_bytes(size); });
  }
  ExpectSame(out, values);
}

TEST(ValueWriter, WritesNestedValues) {
  for (const size_t size : {0, 50, 100, 120, 127, 128, 16370, 16383, 70'000}) {
    const std::string text(size, 'y');
    std::string out;
    OpenListValue outer(ValueTag::kAfter, &out);
    OpenCompositeValue row(ValueTag::kItem, &out);
    AppendText(ValueTag::kItem, text, &out);
    OpenListValue inner(ValueTag::kItem, &out);
    AppendNull(ValueTag::kItem, &out);
    inner.Close();
    row.Close();
    AppendInteger(ValueTag::kItem, 7, &out);
    const int32_t bounds[] = {-1, 1, 0, std::numeric_limits<int32_t>::min(), 2147483647};
    outer.SetLowerBounds(bounds, std::size(bounds));
    outer.Close();
    ExpectSame(
        out, {Made([&](v1::Value* v) {
          auto* fields = v->mutable_list()->add_items()->mutable_composite();
          fields->add_fields()->set_text(text);
          fields->add_fields()->mutable_list()->add_items()->set_null(v1::NULL_VALUE_UNSPECIFIED);
          v->mutable_list()->add_items()->set_integer(7);
          for (const int32_t bound : bounds) v->mutable_list()->add_lower_bounds(bound);
        })});
  }
}

TEST(ValueWriter, TagsAreThoseOfTheFields) {
  const auto tag = [](int field) { return static_cast<uint8_t>(field << 3 | 2); };
  EXPECT_EQ(static_cast<uint8_t>(ValueTag::kAfter), tag(v1::Change::kAfterFieldNumber));
  EXPECT_EQ(static_cast<uint8_t>(ValueTag::kBefore), tag(v1::Change::kBeforeFieldNumber));
  EXPECT_EQ(static_cast<uint8_t>(ValueTag::kKey), tag(v1::Change::kKeyFieldNumber));
  EXPECT_EQ(static_cast<uint8_t>(ValueTag::kItem), tag(v1::ListValue::kItemsFieldNumber));
  EXPECT_EQ(static_cast<uint8_t>(ValueTag::kItem), tag(v1::CompositeValue::kFieldsFieldNumber));
}

TEST(IsUtf8, TellsWellFormedTextFromAnythingElse) {
  using namespace std::string_literals;
  for (const std::string& text :
       {""s, "plain"s, "\0in\0side"s, "\xC2\x80"s, "é€𝄞"s, "\xED\x9F\xBF"s, "\xEE\x80\x80"s,
        "\xF4\x8F\xBF\xBF"s, "aaaaaaaaaaaaaaaaé"s}) {
    EXPECT_TRUE(IsUtf8(text)) << testing::PrintToString(text);
  }
  for (const std::string& text :
       {"\x80"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x9F\xBF"s, "\xED\xA0\x80"s, "\xF0\x8F\xBF\xBF"s,
        "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s, "\xFF"s, "\xC3"s, "\xE2\x82"s, "\xF0\x9D\x84"s,
        "\xE2\x28\xA1"s, "aaaaaaaa\xC3"s, "aaaaaaa\xC3"s}) {
    EXPECT_FALSE(IsUtf8(text)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace tidemark::capture
