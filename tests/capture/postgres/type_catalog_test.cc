#include "capture/postgres/type_catalog.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

constexpr uint32_t kMood = 16390, kMoods = 16389, kBoxDomain = 16400, kBoxDomains = 16401,
                   kPair = 16410, kPairs = 16411, kMoodDomain = 16420;

TypeCatalog WithUserTypes() {
  TypeCatalog catalog;
  catalog.Add({.oid = kMood, .schema_name = "public", .name = "mood", .kind = TypeKind::kEnum});
  catalog.Add({.oid = kMoods,
               .schema_name = "public",
               .name = "_mood",
               .kind = TypeKind::kArray,
               .element_oid = kMood});
  catalog.Add({.oid = kBoxDomain,
               .schema_name = "Geo",
               .name = "area",
               .kind = TypeKind::kDomain,
               .delimiter = ';',
               .base_oid = 603});
  catalog.Add(
      {.oid = kBoxDomains, .name = "_area", .kind = TypeKind::kArray, .element_oid = kBoxDomain});
  catalog.Add({.oid = kPair,
               .schema_name = "public",
               .name = "pair",
               .kind = TypeKind::kComposite,
               .fields = {{"a", 23, -1}, {"moods", kMoods, -1}}});
  catalog.Add({.oid = kPairs, .name = "_pair", .kind = TypeKind::kArray, .element_oid = kPair});
  catalog.Add({.oid = kMoodDomain, .name = "moods", .kind = TypeKind::kDomain, .base_oid = kMoods});
  return catalog;
}

TEST(TypeCatalog, KnowsBuiltInTypesByThemselves) {
  const TypeCatalog catalog;
  EXPECT_EQ(catalog.FormOf(16), v1::VALUE_FORM_BOOLEAN);
  for (const uint32_t oid : {20, 21, 23, 26, 28, 29}) {
    EXPECT_EQ(catalog.FormOf(oid), v1::VALUE_FORM_INTEGER) << oid;
  }
  EXPECT_EQ(catalog.FormOf(5069), v1::VALUE_FORM_UNSIGNED_INTEGER);
  EXPECT_EQ(catalog.FormOf(700), v1::VALUE_FORM_FLOAT32);
  EXPECT_EQ(catalog.FormOf(701), v1::VALUE_FORM_FLOAT64);
  EXPECT_EQ(catalog.FormOf(1700), v1::VALUE_FORM_DECIMAL);
  EXPECT_EQ(catalog.FormOf(17), v1::VALUE_FORM_BINARY);
  EXPECT_EQ(catalog.FormOf(114), v1::VALUE_FORM_JSON);
  EXPECT_EQ(catalog.FormOf(3802), v1::VALUE_FORM_JSON);
  for (const uint32_t oid : {1082, 1083, 1114, 1184, 1186, 1266}) {
    EXPECT_EQ(catalog.FormOf(oid), v1::VALUE_FORM_TEMPORAL) << oid;
  }
  for (const uint32_t oid : {18, 19, 25, 142, 600, 603, 790, 869, 1042, 1043, 1560, 2950, 3220,
                             3614, 3904, 4451, 22, 30}) {
    EXPECT_EQ(catalog.FormOf(oid), v1::VALUE_FORM_TEXT) << oid;
  }
  for (const uint32_t oid : {1000, 1007, 1009, 1020, 1185, 1231, 3807, 6150, 271}) {
    EXPECT_EQ(catalog.FormOf(oid), v1::VALUE_FORM_LIST) << oid;
    EXPECT_TRUE(catalog.Knows(oid));
  }
  EXPECT_EQ(catalog.Resolve(1020)->element_delimiter, ';');
  EXPECT_EQ(catalog.Resolve(1007)->element->reading, TextReading::kInteger);
}

// proves B031, B033: what a type is made of decides, whatever it is called.
TEST(TypeCatalog, ResolvesTypesThatADatabaseDefines) {
  const TypeCatalog catalog = WithUserTypes();
  EXPECT_EQ(catalog.FormOf(kMood), v1::VALUE_FORM_TEXT);
  EXPECT_EQ(catalog.FormOf(kMoods), v1::VALUE_FORM_LIST);
  EXPECT_EQ(catalog.FormOf(kMoodDomain), v1::VALUE_FORM_LIST);
  EXPECT_EQ(catalog.FormOf(kBoxDomain), v1::VALUE_FORM_TEXT);
  EXPECT_EQ(catalog.Resolve(kBoxDomains)->element_delimiter, ';');
  const auto pairs = catalog.Resolve(kPairs);
  ASSERT_EQ(pairs->element->reading, TextReading::kComposite);
  ASSERT_EQ(pairs->element->fields.size(), 2u);
  EXPECT_EQ(pairs->element->fields[1]->reading, TextReading::kList);
}

TEST(TypeCatalog, UnknownTypesAreText) {
  TypeCatalog catalog;
  EXPECT_FALSE(catalog.Knows(99999));
  EXPECT_EQ(catalog.Find(99999), nullptr);
  EXPECT_EQ(catalog.FormOf(99999), v1::VALUE_FORM_TEXT);
  catalog.Add({.oid = 99999, .name = "vector", .kind = TypeKind::kBase});
  EXPECT_TRUE(catalog.Knows(99999));
  EXPECT_EQ(catalog.FormOf(99999), v1::VALUE_FORM_TEXT);
}

TEST(TypeCatalog, BuiltInTypesCannotBeReplaced) {
  TypeCatalog catalog;
  catalog.Add({.oid = 23, .name = "int4", .kind = TypeKind::kEnum});
  EXPECT_EQ(catalog.FormOf(23), v1::VALUE_FORM_INTEGER);
}

TEST(TypeCatalog, AddedTypesCanBeReplacedAndForgotten) {
  TypeCatalog catalog = WithUserTypes();
  const auto before = catalog.Resolve(kPair);
  catalog.Add(
      {.oid = kPair, .name = "pair", .kind = TypeKind::kComposite, .fields = {{"a", 25, -1}}});
  EXPECT_EQ(before->fields.size(), 2u);
  EXPECT_EQ(catalog.Resolve(kPair)->fields.size(), 1u);
  EXPECT_EQ(catalog.Resolve(kPairs)->element->fields.size(), 1u);
  catalog.Clear();
  EXPECT_FALSE(catalog.Knows(kPair));
  EXPECT_EQ(catalog.FormOf(kPair), v1::VALUE_FORM_TEXT);
}

TEST(TypeCatalog, TypesThatContainThemselvesEnd) {
  TypeCatalog catalog;
  catalog.Add({.oid = 1, .name = "a", .kind = TypeKind::kComposite, .fields = {{"x", 2, -1}}});
  catalog.Add({.oid = 2, .name = "_a", .kind = TypeKind::kArray, .element_oid = 1});
  catalog.Add({.oid = 3, .name = "d", .kind = TypeKind::kDomain, .base_oid = 3});
  catalog.Add({.oid = 4, .name = "l", .kind = TypeKind::kArray, .element_oid = 4});
  catalog.Add({.oid = 5, .name = "m", .kind = TypeKind::kArray, .element_oid = 6});
  catalog.Add({.oid = 6, .name = "n", .kind = TypeKind::kArray, .element_oid = 5});
  for (uint32_t oid = 1; oid <= 6; ++oid) {
    EXPECT_NE(catalog.Resolve(oid), nullptr);
    EXPECT_FALSE(catalog.SourceType(oid, -1).empty());
  }
}

TEST(TypeCatalog, PrintsTypesAsTheServerDoes) {
  const TypeCatalog catalog = WithUserTypes();
  const auto numeric = [](int precision, int scale) {
    return (precision << 16 | (scale & 0x7FF)) + 4;
  };
  EXPECT_EQ(catalog.SourceType(23, -1), "integer");
  EXPECT_EQ(catalog.SourceType(1700, -1), "numeric");
  EXPECT_EQ(catalog.SourceType(1700, numeric(10, 2)), "numeric(10,2)");
  EXPECT_EQ(catalog.SourceType(1700, numeric(10, -2)), "numeric(10,-2)");
  EXPECT_EQ(catalog.SourceType(1231, numeric(1000, 0)), "numeric(1000,0)[]");
  EXPECT_EQ(catalog.SourceType(1042, 7), "character(3)");
  EXPECT_EQ(catalog.SourceType(1042, -1), "bpchar");
  EXPECT_EQ(catalog.SourceType(1043, 84), "character varying(80)");
  EXPECT_EQ(catalog.SourceType(1015, 12), "character varying(8)[]");
  EXPECT_EQ(catalog.SourceType(1560, 3), "bit(3)");
  EXPECT_EQ(catalog.SourceType(1562, 5), "bit varying(5)");
  EXPECT_EQ(catalog.SourceType(1114, 3), "timestamp(3) without time zone");
  EXPECT_EQ(catalog.SourceType(1184, -1), "timestamp with time zone");
  EXPECT_EQ(catalog.SourceType(1183, 2), "time(2) without time zone[]");
  EXPECT_EQ(catalog.SourceType(1186, 2147418115), "interval(3)");
  EXPECT_EQ(catalog.SourceType(1186, (4 << 16) | 65535), "interval year");
  EXPECT_EQ(catalog.SourceType(1186, 7168 << 16 | 3), "interval hour to second(3)");
  EXPECT_EQ(catalog.SourceType(18, -1), "\"char\"");
  EXPECT_EQ(catalog.SourceType(kMood, -1), "mood");
  EXPECT_EQ(catalog.SourceType(kMoods, -1), "mood[]");
  EXPECT_EQ(catalog.SourceType(kBoxDomain, -1), "\"Geo\".area");
  EXPECT_EQ(catalog.SourceType(kBoxDomains, -1), "\"Geo\".area[]");
}

}  // namespace
}  // namespace tidemark::capture::postgres
