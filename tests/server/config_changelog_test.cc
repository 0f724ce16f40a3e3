// What the configuration of a feed that reads a changelog may say.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/parsed_config.h"

namespace tidemark {
namespace {

using testing::ConfigOf;
using testing::ReportOf;

constexpr char kLogin[] = "postgres: {host: db, database: shop, user: reader}";

// A feed on the third line; its changelog is on the fourth, with `more` behind its login.
std::string Changelog(const std::string& more, const std::string& of_feed = "") {
  return fmt::format("store: {{path: s}}\nfeeds:\n  - name: shop\n    changelog: {{{}{}}}\n{}",
                     kLogin, more, of_feed);
}

TEST(ConfigChangelog, DefaultsAreFilledIn) {
  const auto config = ConfigOf(Changelog(""));
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::ChangelogConfig& changelog = config->feeds(0).changelog();
  EXPECT_EQ(changelog.postgres().port(), 5432u);
  EXPECT_EQ(changelog.table(), "tidemark.changelog");
  EXPECT_EQ(changelog.strategy(), "snapshot");
  EXPECT_EQ(changelog.interval().nanos(), 500'000'000);
  EXPECT_EQ(changelog.page_rows(), 1000u);
  EXPECT_FALSE(changelog.trim());
  EXPECT_EQ(changelog.columns().old_row(), "") << "whether it was named, the source wants to know";
}

TEST(ConfigChangelog, EveryKeyIsRead) {
  const auto config = ConfigOf(
      Changelog(", table: audit.log, strategy: xid_watermark, interval: 10ms, page_rows: 7, trim: "
                "true, columns: {seq: n, xid: x, schema_name: s, table_name: t, op: o, key: k, "
                "row: r, changed_at: c, old_row: b}"));
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::ChangelogConfig& changelog = config->feeds(0).changelog();
  EXPECT_EQ(changelog.table(), "audit.log");
  EXPECT_EQ(changelog.strategy(), "xid_watermark");
  EXPECT_EQ(changelog.page_rows(), 7u);
  EXPECT_TRUE(changelog.trim());
  EXPECT_EQ(changelog.columns().seq(), "n");
  EXPECT_EQ(changelog.columns().old_row(), "b");
}

struct BadChangelog {
  const char* name;
  std::string text;
  std::string report;  // behind "t.yaml:"
};

class ConfigChangelogRefusal : public ::testing::TestWithParam<BadChangelog> {};

TEST_P(ConfigChangelogRefusal, SaysWhereAndWhatInstead) {
  EXPECT_EQ(ReportOf(GetParam().text), "t.yaml:" + GetParam().report);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ConfigChangelogRefusal,
    ::testing::Values(
        BadChangelog{"Glob", Changelog(", table: 'a.*'"),
                     "4:69: feeds[0].changelog.table: expects one table, schema.table; patterns "
                     "with * and ? are not accepted here"},
        BadChangelog{"Strategy", Changelog(", strategy: snapshots"),
                     "4:69: feeds[0].changelog.strategy: unknown word \"snapshots\"; did you mean "
                     "\"snapshot\"?"},
        BadChangelog{"TooOften", Changelog(", interval: 9ms"),
                     "4:69: feeds[0].changelog.interval: expects 10ms to 1h"},
        BadChangelog{"PagesTooLarge", Changelog(", page_rows: 10001"),
                     "4:69: feeds[0].changelog.page_rows: expects 1 to 10000"},
        BadChangelog{"OneColumnForTwo", Changelog(", columns: {row: key}"),
                     "4:79: feeds[0].changelog.columns.row: the column key is that of key already"},
        BadChangelog{"MisspeltColumn", Changelog(", columns: {old_rows: r}"),
                     "4:79: feeds[0].changelog.columns.old_rows: unknown key; did you mean "
                     "\"old_row\"?"},
        BadChangelog{"NoDatabase", "store: {path: s}\nfeeds:\n  - {name: a, changelog: {}}\n",
                     "3:15: feeds[0].changelog: expects one engine: postgres"},
        BadChangelog{"BesidePostgres",
                     Changelog("", "    postgres: {host: h, database: d, user: u}\n"),
                     "4:5: feeds[0].changelog: given beside postgres; a feed has one engine, or "
                     "poll and postgres when it is to be moved from one to the other"},
        BadChangelog{"BesidePoll",
                     Changelog("", std::string("    poll: {") + kLogin +
                                       ", tables: [{table: a.b, cursor: c}]}\n"),
                     "4:5: feeds[0].changelog: given beside poll; a feed has one engine, or poll "
                     "and postgres when it is to be moved from one to the other"},
        BadChangelog{"EndsAtATime", Changelog("", "    stop_at: 2026-03-01T12:00:00Z\n"),
                     "5:5: feeds[0].stop_at: a changelog does not say when its transactions were "
                     "committed: expects never, now, or the number of a transaction"},
        BadChangelog{"EndsAtALogPosition", Changelog("", "    stop_at: 0/16B3748\n"),
                     "5:5: feeds[0].stop_at: expects never, now, or the number of a transaction"},
        BadChangelog{"EndsWithAWatermark",
                     Changelog(", strategy: xid_watermark", "    stop_at: now\n"),
                     "5:5: feeds[0].stop_at: strategy xid_watermark has no proved end: what is "
                     "committed may wait for any older transaction"}),
    [](const auto& info) { return info.param.name; });

TEST(ConfigChangelog, WhereItEndsIsATransactionByItsNumber) {
  for (const char* text : {"never", "now", "17", "transaction 17"}) {
    const auto config = ConfigOf(Changelog("", fmt::format("    stop_at: {}\n", text)));
    EXPECT_TRUE(config.ok()) << config.status();
  }
}

// proves P32
TEST(ConfigChangelog, NoFeedDeletesWhatAnotherOneHasToRead) {
  const auto feed = [](const std::string& name, const std::string& more) {
    return fmt::format("  - {{name: {}, changelog: {{{}{}}}}}\n", name, kLogin, more);
  };
  const std::string top = "store: {path: s}\nfeeds:\n";
  EXPECT_TRUE(ConfigOf(top + feed("a", "") + feed("b", "")).ok());
  EXPECT_TRUE(
      ConfigOf(top + feed("a", ", trim: true") + feed("b", ", table: x.y, trim: true")).ok());
  EXPECT_EQ(ReportOf(top + feed("a", "") + feed("b", ", trim: true")),
            "t.yaml:4:79: feeds[1].changelog.trim: the feed on line 3 reads the same changelog, "
            "and may not have read yet what would be deleted");
}

}  // namespace
}  // namespace tidemark
