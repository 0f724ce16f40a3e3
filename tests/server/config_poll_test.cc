// What the configuration of a polled feed may say.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/parsed_config.h"

namespace tidemark {
namespace {

using testing::ConfigOf;
using ::testing::HasSubstr;
using testing::ReportOf;

constexpr char kLogin[] = "{host: db, database: shop, user: reader}";

// A feed on line 3, with `more` inside its poll, from line 6 on.
std::string Poll(const std::string& more) {
  return fmt::format(
      "store: {{path: s}}\nfeeds:\n  - name: shop\n    poll:\n      postgres: {}\n{}", kLogin,
      more);
}

// A single table, with `more` behind its cursor, on line 7.
std::string Table(const std::string& more) {
  return Poll("      tables:\n        - {table: public.orders, cursor: updated_at" + more + "}\n");
}

// proves A07, A36
TEST(ConfigPoll, DefaultsAreFilledIn) {
  const auto config = ConfigOf(Table(""));
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::PollConfig& poll = config->feeds(0).poll();
  EXPECT_EQ(poll.postgres().port(), 5432u);
  EXPECT_EQ(poll.postgres().sslmode(), "verify-full");
  EXPECT_EQ(poll.postgres().silence_timeout().seconds(), 30);
  EXPECT_EQ(poll.interval().seconds(), 5);
  EXPECT_EQ(poll.page_rows(), 1000u);
  EXPECT_EQ(poll.overlap().seconds(), 60);
  EXPECT_FALSE(poll.allow_no_overlap());
  EXPECT_EQ(poll.delay().seconds(), 1);
  EXPECT_EQ(poll.future_tolerance().seconds(), 60);
  EXPECT_EQ(poll.unindexed_rows_max(), 100'000u);
  EXPECT_FALSE(poll.has_key_scan()) << "off without it";
  EXPECT_EQ(poll.tables(0).null_cursor(), "fail");
  EXPECT_FALSE(poll.tables(0).has_overlap_values()) << "means something for numbers only";
  EXPECT_FALSE(config->feeds(0).has_postgres()) << "the feed is not to be moved";
}

TEST(ConfigPoll, EveryKeyIsRead) {
  const auto config = ConfigOf(R"(store: {path: s}
feeds:
  - name: shop
    poll:
      postgres: {host: /run/postgresql, port: 6543, database: d, user: u, password: p, silence_timeout: 5s}
      interval: 100ms
      page_rows: 50
      overlap: 0s
      allow_no_overlap: true
      delay: 0s
      future_tolerance: 1h
      unindexed_rows_max: 9007199254740993
      key_scan: {period: 7d, rows_per_second: 5}
      tables:
        - table: public.orders
          cursor: updated_at
          key: [tenant, id]
          null_cursor: include
          deleted: deleted_at
          tombstones: {table: public.orders_deleted, cursor: deleted_at, key: [tenant, order_id]}
        - table: 'public."Event"'
          cursor: id
          null_cursor: exclude
          overlap_values: 0
)");
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::PollConfig& poll = config->feeds(0).poll();
  EXPECT_EQ(poll.postgres().sslmode(), "prefer");
  EXPECT_EQ(poll.interval().nanos(), 100'000'000);
  EXPECT_EQ(poll.overlap().seconds(), 0);
  EXPECT_EQ(poll.delay().seconds(), 0);
  EXPECT_EQ(poll.unindexed_rows_max(), 9'007'199'254'740'993u);
  EXPECT_EQ(poll.key_scan().period().seconds(), 7 * 24 * 3600);
  EXPECT_EQ(poll.key_scan().rows_per_second(), 5u);
  ASSERT_EQ(poll.tables_size(), 2);
  EXPECT_EQ(poll.tables(0).key(1), "id");
  EXPECT_EQ(poll.tables(0).deleted(), "deleted_at");
  EXPECT_EQ(poll.tables(0).tombstones().key(1), "order_id");
  EXPECT_EQ(poll.tables(1).table(), "public.\"Event\"");
  EXPECT_TRUE(poll.tables(1).has_overlap_values());
  EXPECT_EQ(poll.tables(1).overlap_values(), 0u);
}

TEST(ConfigPoll, AScanOfKeysWithoutAPeriodIsRunWhenItIsAskedFor) {
  const auto config = ConfigOf(Table("") + "      key_scan: {}\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->feeds(0).poll().has_key_scan());
  EXPECT_FALSE(config->feeds(0).poll().key_scan().has_period());
  EXPECT_EQ(config->feeds(0).poll().key_scan().rows_per_second(), 10'000u);
}

struct BadPoll {
  const char* name;
  std::string text;
  std::string report;  // behind "t.yaml:"
};

class ConfigPollRefusal : public ::testing::TestWithParam<BadPoll> {};

// proves A07, A10
TEST_P(ConfigPollRefusal, SaysWhereAndWhatInstead) {
  EXPECT_EQ(ReportOf(GetParam().text), "t.yaml:" + GetParam().report);
}

const std::string kItem = "feeds[0].poll.tables[0]";
constexpr char kNoOverlap[] =
    ": 0 reads nothing again: a row that is committed later than one with a higher cursor is lost; "
    "give it a window, or set allow_no_overlap: true";

INSTANTIATE_TEST_SUITE_P(
    Rules, ConfigPollRefusal,
    ::testing::Values(
        BadPoll{"NoCursor", Poll("      tables:\n        - {table: public.orders}\n"),
                "7:11: " + kItem + ".cursor: missing"},
        BadPoll{"SeveralCursorColumns",
                Poll("      tables:\n        - {table: public.orders, cursor: 'updated_at, id'}\n"),
                "7:34: " + kItem +
                    ".cursor: expects one column: rows with the same cursor are told apart by the "
                    "key, which is put behind it"},
        BadPoll{"NoTables", Poll("      tables: []\n"),
                "6:7: feeds[0].poll.tables: expects at least one table"},
        BadPoll{"NoTablesAtAll", Poll(""), "4:5: feeds[0].poll.tables: expects at least one table"},
        BadPoll{"Glob", Poll("      tables:\n        - {table: public.*, cursor: c}\n"),
                "7:12: " + kItem +
                    ".table: expects one table, schema.table; patterns with * and ? are not "
                    "accepted here"},
        BadPoll{"NoTable", Poll("      tables:\n        - {cursor: c}\n"),
                "7:11: " + kItem + ".table: missing"},
        BadPoll{
            "SameTableTwice",
            Poll("      tables:\n        - {table: public.orders, cursor: c}\n"
                 "        - {table: '\"public\".orders', cursor: d}\n"),
            "8:12: feeds[0].poll.tables[1].table: public.orders is polled already, by the entry "
            "on line 7"},
        BadPoll{"ColumnTwice", Table(", key: [id, id]"),
                "7:64: " + kItem + ".key[1]: the column id is named twice"},
        BadPoll{"EmptyColumn", Table(", key: ['']"), "7:60: " + kItem + ".key[0]: missing"},
        BadPoll{
            "NullCursor", Table(", null_cursor: includ"),
            "7:54: " + kItem + ".null_cursor: unknown word \"includ\"; did you mean \"include\"?"},
        BadPoll{"DeletedIsTheCursor", Table(", deleted: updated_at"),
                "7:54: " + kItem +
                    ".deleted: the cursor column itself: every row would be a deleted one"},
        BadPoll{"NoValuesAgain", Table(", overlap_values: 0"),
                "7:54: " + kItem + ".overlap_values" + kNoOverlap},
        BadPoll{"TombstonesInTheTable", Table(", tombstones: {table: public.orders, cursor: c}"),
                "7:67: " + kItem +
                    ".tombstones.table: the table itself; a column that marks deleted rows is "
                    "named by deleted"},
        BadPoll{"TombstonesWithoutCursor", Table(", tombstones: {table: public.gone}"),
                "7:54: " + kItem + ".tombstones.cursor: missing"},
        BadPoll{"KeysOfDifferentLength",
                Table(", key: [a, b], tombstones: {table: public.gone, cursor: c, key: [a]}"),
                "7:111: " + kItem + ".tombstones.key: 1 columns, and the key of the table has 2"},
        BadPoll{"SharedTombstones",
                Poll("      tables:\n"
                     "        - {table: public.a, cursor: c, tombstones: {table: public.g, cursor: "
                     "c}}\n"
                     "        - {table: public.b, cursor: c, tombstones: {table: public.g, cursor: "
                     "c}}\n"),
                "8:53: feeds[0].poll.tables[1].tombstones.table: public.g holds the tombstones of "
                "the table on line 7 already: nothing in it would say of which one a row is"},
        BadPoll{"NothingAgain", Table("") + "      overlap: 0s\n",
                std::string("8:7: feeds[0].poll.overlap") + kNoOverlap},
        BadPoll{
            "OverlapWithoutUnit", Table("") + "      overlap: 60\n",
            "8:16: feeds[0].poll.overlap: expects a whole number with its unit: 500ms, 30s, 5m, "
            "12h or 7d, found \"60\""},
        BadPoll{"TooOften", Table("") + "      interval: 99ms\n",
                "8:7: feeds[0].poll.interval: expects 100ms to 1h"},
        BadPoll{"TooSeldom", Table("") + "      interval: 61m\n",
                "8:7: feeds[0].poll.interval: expects 100ms to 1h"},
        BadPoll{"PagesTooLarge", Table("") + "      page_rows: 10001\n",
                "8:7: feeds[0].poll.page_rows: expects 1 to 10000"},
        BadPoll{"PagesWithoutRows", Table("") + "      page_rows: 0\n",
                "8:18: feeds[0].poll.page_rows: expects a whole number from 1 on, found \"0\""},
        BadPoll{"UnindexedNever", Table("") + "      unindexed_rows_max: 0\n",
                "8:27: feeds[0].poll.unindexed_rows_max: expects a whole number from 1 on, found "
                "\"0\""},
        BadPoll{"DelayTooLong", Table("") + "      delay: 2h\n",
                "8:7: feeds[0].poll.delay: expects 0ms to 1h"},
        BadPoll{"ScanTooOften", Table("") + "      key_scan: {period: 59s}\n",
                "8:18: feeds[0].poll.key_scan.period: expects 1m to 30d"},
        BadPoll{"ScanWithoutRows", Table("") + "      key_scan: {rows_per_second: 0}\n",
                "8:35: feeds[0].poll.key_scan.rows_per_second: expects a whole number from 1 on, "
                "found \"0\""},
        BadPoll{"MisspeltKey", Table("") + "      overlapp: 5s\n",
                "8:7: feeds[0].poll.overlapp: unknown key; did you mean \"overlap\"?"},
        BadPoll{"MisspeltKeyOfATable", Table(", tombstone: {}"),
                "7:54: " + kItem + ".tombstone: unknown key; did you mean \"tombstones\"?"},
        BadPoll{"RowsOff", Table("") + "    rows: false\n",
                "8:5: feeds[0].rows: a polled feed needs the current rows: what a poll finds is "
                "compared with them"},
        BadPoll{"RowsOfTableOff", Table("") + "    rows_off: [public.orders]\n",
                "8:5: feeds[0].rows_off: a polled feed needs the current rows: what a poll finds "
                "is compared with them"},
        BadPoll{"GivingRowsUp", Table("") + "    recovery: gap_and_continue\n",
                "8:5: feeds[0].recovery: a polled feed needs its current rows, and "
                "gap_and_continue gives them up: expects stop or resnapshot"},
        BadPoll{"NoDatabase",
                "store: {path: s}\nfeeds:\n  - name: a\n    poll: {tables: [{table: a.b, cursor: "
                "c}]}\n",
                "4:5: feeds[0].poll: expects one engine: postgres"},
        BadPoll{"TwoPasswords",
                "store: {path: s}\nfeeds:\n  - name: a\n    poll:\n      tables: [{table: a.b, "
                "cursor: c}]\n      postgres: {host: h, database: d, user: u, password: p, "
                "password_file: f}\n",
                "6:62: feeds[0].poll.postgres.password_file: given beside password; at most one of "
                "the two"}),
    [](const auto& info) { return info.param.name; });

// proves A53
TEST(ConfigPoll, TwoFeedsOfOneTableHaveAStateEach) {
  const std::string feed =
      fmt::format("poll: {{postgres: {}, tables: [{{table: a.b, cursor: c}}]}}}}\n", kLogin);
  const std::string top = "store: {path: s}\nfeeds:\n";
  EXPECT_TRUE(ConfigOf(top + "  - {name: one, " + feed + "  - {name: two, " + feed).ok())
      << "state is kept by the name of the feed";
  EXPECT_EQ(ReportOf(top + "  - {name: one, " + feed + "  - {name: one, " + feed),
            "t.yaml:4:6: feeds[1].name: the name one is that of the feed on line 3; two feeds "
            "cannot share one");
}

std::string Moving(const std::string& postgres) {
  return Table("") + "    postgres: {host: db, database: shop, user: tidemark" + postgres + "}\n";
}

TEST(ConfigPoll, AFeedThatIsToBeMovedHasBothEngines) {
  const auto config = ConfigOf(Moving(""));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->feeds(0).postgres().slot(), "tidemark_shop");
  EXPECT_THAT(config->feeds(0).postgres().tables(), ::testing::ElementsAre("public.orders"))
      << "it goes on with the tables that it has";
  EXPECT_TRUE(ConfigOf(Moving(", tables: ['public.*']")).ok());
  EXPECT_EQ(ReportOf(Moving(", tables: [public.customers]")),
            "t.yaml:8:58: feeds[0].postgres.tables: public.orders is polled and not among them: "
            "the feed would lose it when it is moved to the log");
}

TEST(ConfigPoll, WhereItEndsIsNoPositionOfALog) {
  const auto stop_at = [](const std::string& text) { return Table("") + "    stop_at: " + text; };
  EXPECT_TRUE(ConfigOf(stop_at("now")).ok());
  EXPECT_TRUE(ConfigOf(stop_at("2026-03-01T12:00:00Z")).ok());
  EXPECT_TRUE(ConfigOf(stop_at("poll 17")).ok());
  for (const char* text : {"0/16B3748", "17", "poll", "poll 1x"}) {
    EXPECT_EQ(
        ReportOf(stop_at(text)),
        "t.yaml:8:5: feeds[0].stop_at: expects never, now, a time, or the last poll: poll 17");
  }
}

}  // namespace
}  // namespace tidemark
