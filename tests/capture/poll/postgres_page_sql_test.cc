// The statements, and what they make of settings; that PostgreSQL takes them is proved by the
// source itself (poll_source_test.cc).
#include "capture/poll/postgres_page_sql.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemark::capture::poll {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PageSql Sample(CursorType type = CursorType::kTimestampTz) {
  return {.from = "ONLY \"public\".\"t\"",
          .cursor = "\"at\"",
          .cursor_type = type,
          .key = {"\"id\""},
          .key_types = {"integer"},
          .columns = {"\"id\"", "\"at\""},
          .column_types = {"integer", "timestamp with time zone"}};
}

WindowTexts SampleWindow() {
  return {.bound = {.cursor = "2026-01-02", .key = {"7"}},
          .lower = "2026-01-01",
          .fence = "2026-01-03",
          .beyond = "2026-01-04"};
}

WindowRules SampleRules() {
  return {.clock = "2026-03-01 12:00:00+00",
          .delay = absl::Seconds(1),
          .overlap = absl::Seconds(60),
          .overlap_values = 10,
          .future_tolerance = absl::Minutes(1),
          .unit = absl::Microseconds(1)};
}

// proves A18
TEST(CursorTypeTest, OnlyTypesWithAnOrderThatWritesRaise) {
  EXPECT_EQ(CursorTypeOf(1184), CursorType::kTimestampTz);
  EXPECT_EQ(CursorTypeOf(1700), CursorType::kNumeric);
  for (const uint32_t oid : {25u, 701u, 1083u, 1186u, 2950u, 3220u}) {
    EXPECT_EQ(CursorTypeOf(oid), std::nullopt) << oid;
  }
}

// proves A16
TEST(CursorTypeTest, KnowsHowCoarseAColumnIs) {
  EXPECT_EQ(UnitOf(CursorType::kTimestamp, -1), absl::Microseconds(1));
  EXPECT_EQ(UnitOf(CursorType::kTimestampTz, 0), absl::Seconds(1));
  EXPECT_EQ(UnitOf(CursorType::kTimestampTz, 3), absl::Milliseconds(1));
  EXPECT_EQ(UnitOf(CursorType::kDate, -1), absl::Hours(24));
}

// proves A12, A15
TEST(PageSqlTest, GoesOnBehindCursorAndKeyAsOneRow) {
  PageOrder order{.after = {.cursor = "2026-01-02", .key = {"9"}}, .rows_max = 50};
  const std::string sql = PageCopySql(Sample(), SampleWindow(), order);
  EXPECT_THAT(sql, HasSubstr("WHERE (r.\"at\", r.\"id\") > ('2026-01-02'::timestamptz, "
                             "'9'::integer) AND r.\"at\" < '2026-01-03'::timestamptz"));
  EXPECT_THAT(sql, HasSubstr("ORDER BY r.\"at\", r.\"id\" LIMIT 50"));
}

// proves A07
TEST(PageSqlTest, BeginsBeforeTheBoundUnlessThereIsNoOverlap) {
  EXPECT_THAT(PageCopySql(Sample(), SampleWindow(), {}),
              HasSubstr("WHERE r.\"at\" >= '2026-01-01'::timestamptz"));
  WindowTexts strict = SampleWindow();
  strict.behind_bound = true;
  EXPECT_THAT(PageCopySql(Sample(), strict, {}),
              HasSubstr("WHERE (r.\"at\", r.\"id\") > ('2026-01-02'::timestamptz, '7'::integer)"));
}

TEST(PageSqlTest, BeforeAnythingWasReadOnlyPoisonIsPassedOver) {
  EXPECT_THAT(PageCopySql(Sample(), {.fence = "f", .beyond = "b"}, {}),
              HasSubstr("WHERE r.\"at\" > '-infinity'::timestamptz AND"));
  EXPECT_THAT(PageCopySql(Sample(CursorType::kBigint), {}, {}),
              HasSubstr("WHERE r.\"at\" IS NOT NULL ORDER"));
}

TEST(PageSqlTest, NumbersHaveNoFenceAndMayBeNone) {
  const std::string sql = PageCopySql(Sample(CursorType::kNumeric), {.lower = "5"}, {});
  EXPECT_THAT(sql, HasSubstr("r.\"at\" >= '5'::numeric AND r.\"at\" < 'Infinity'::numeric"));
  PageSql old = Sample(CursorType::kNumeric);
  old.numeric_infinity = false;
  EXPECT_THAT(PageCopySql(old, {.lower = "5"}, {}), HasSubstr("r.\"at\" < 'NaN'::numeric"));
}

TEST(PageSqlTest, EveryLiteralIsQuoted) {
  PageOrder order{.part = PageOrder::Part::kKeys, .keys = {{"it's"}, {"b"}}};
  EXPECT_THAT(PageCopySql(Sample(), SampleWindow(), order),
              HasSubstr("WHERE r.\"id\" IN ('it''s'::integer, 'b'::integer)"));
}

// Hundreds of wide rows would have to be held for nothing.
TEST(PageSqlTest, WhetherKeysAreThereIsAskedWithoutTheirRows) {
  const PageOrder order{.part = PageOrder::Part::kKeysAlone, .keys = {{"1"}, {"2"}}};
  const std::string sql = PageCopySql(Sample(), SampleWindow(), order);
  EXPECT_THAT(sql, HasSubstr("r.\"id\", NULL FROM"));
  EXPECT_THAT(sql, HasSubstr("r.\"id\" IN ('1'::integer, '2'::integer)"));
  EXPECT_THAT(sql, Not(HasSubstr("r.\"at\"")));
}

// A list of tuples would be tried on each row, one by one.
TEST(PageSqlTest, KeysOfSeveralColumnsAreJoined) {
  PageSql table = Sample();
  table.key.emplace_back("\"part\"");
  table.key_types.emplace_back("text");
  const PageOrder order{.part = PageOrder::Part::kKeys, .keys = {{"1", "a"}, {"2", "b"}}};
  EXPECT_THAT(PageCopySql(table, SampleWindow(), order),
              HasSubstr("(r.\"id\", r.\"part\") IN (VALUES ('1'::integer, 'a'::text), "
                        "('2'::integer, 'b'::text))"));
}

// proves A23
TEST(PageSqlTest, TombstonesComeAmongTheRowsInTheOrderOfTheirStamps) {
  PageSql table = Sample();
  table.tombstones = {.from = "ONLY \"public\".\"gone\"", .cursor = "\"at\"", .key = {"\"id\""}};
  const std::string sql = PageCopySql(table, SampleWindow(), {.rows_max = 5});
  EXPECT_THAT(sql, HasSubstr("UNION ALL"));
  EXPECT_THAT(sql, HasSubstr("u ORDER BY place0, place1, kind LIMIT 5"));
  // One that is younger than the row buries it, and one that is not does not.
  EXPECT_THAT(sql, HasSubstr("x.\"at\" > r.\"at\""));
  EXPECT_THAT(sql, HasSubstr("r.\"at\" >= x.\"at\""));
  // Of several the youngest tells, which the window has to hold. It is looked for only where there
  // is a delete to be told.
  EXPECT_THAT(sql, HasSubstr("gone, CASE WHEN gone = (kind = 'r') THEN EXISTS (SELECT FROM ONLY "
                             "\"public\".\"gone\" y WHERE y.\"id\"::integer = u.place1 AND "));
  EXPECT_THAT(sql, HasSubstr("AND y.\"at\" > u.place0 AND y.\"at\" > '-infinity'"));
  EXPECT_EQ(sql.find(" y WHERE"), sql.rfind(" y WHERE"));
  const std::string scan =
      PageCopySql(table, SampleWindow(), {.part = PageOrder::Part::kByKey, .rows_max = 5});
  EXPECT_THAT(scan, Not(HasSubstr(" y WHERE"))) << "it reads no window";
}

// proves A39, B172
TEST(WindowSqlTest, AStampWithoutZoneIsTakenForUtc) {
  const std::string sql = WindowSql(Sample(CursorType::kTimestamp), {}, {}, SampleRules());
  EXPECT_THAT(sql, HasSubstr("'2026-03-01 12:00:00+00'::timestamptz AT TIME ZONE 'UTC'"));
  EXPECT_THAT(WindowSql(Sample(), {}, {}, SampleRules()), Not(HasSubstr("AT TIME ZONE")));
}

TEST(WindowSqlTest, ACoarseCursorIsReadAgainFromOneUnitBeforeAtLeast) {
  WindowRules rules = SampleRules();
  rules.unit = absl::Hours(24);
  const CursorPlace bound{.cursor = "2026-01-02", .key = {"7"}};
  EXPECT_THAT(WindowSql(Sample(CursorType::kDate), bound, {}, rules),
              HasSubstr("'2026-01-02'::date - 1"));
  rules.overlap = absl::ZeroDuration();
  EXPECT_FALSE(ReadsBehindBoundOnly(CursorType::kDate, rules));
  rules.unit = absl::Microseconds(1);
  EXPECT_TRUE(ReadsBehindBoundOnly(CursorType::kTimestampTz, rules));
}

TEST(WindowSqlTest, ANumberDoesNotFallBelowItsType) {
  const CursorPlace bound{.cursor = "-32760", .key = {"7"}};
  EXPECT_THAT(WindowSql(Sample(CursorType::kSmallint), bound, {}, SampleRules()),
              HasSubstr("greatest('-32760'::smallint::numeric - 10, -32768)::smallint"));
}

// proves A14
TEST(PlanTest, AnIndexIsEnteredAndNothingSorted) {
  EXPECT_TRUE(PlanUsesIndex({"Limit", "  ->  Index Scan using t_at on t r",
                             "        Index Cond: (ROW(at, id) > ROW($0, $1))"}));
  // Of parts, each by its index.
  EXPECT_TRUE(PlanUsesIndex({"Limit", "  ->  Merge Append", "        Sort Key: r.at, r.id",
                             "        ->  Index Scan using a on t1 r_1",
                             "              Index Cond: (ROW(at, id) > ROW($0, $1))"}));
  EXPECT_FALSE(PlanUsesIndex({"Limit", "  ->  Index Scan using t_at on t r",
                              "        Filter: (ROW(at, id) > ROW($0, $1))"}));
  EXPECT_FALSE(PlanUsesIndex({"Limit", "  ->  Incremental Sort", "        Sort Key: at, id",
                              "        ->  Index Scan using t_at on t r",
                              "              Index Cond: (at > $0)"}));
  EXPECT_FALSE(PlanUsesIndex({"Limit", "  ->  Sort", "        ->  Seq Scan on t r"}));
}

}  // namespace
}  // namespace tidemark::capture::poll
