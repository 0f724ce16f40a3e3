#include "server/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "proto/reason.h"
#include "server/limits.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSmallest[] = R"(store:
  path: /var/lib/tidemark/store/
feeds:
  - name: my-shop
    postgres:
      host: db.example.com
      database: shop
      user: tidemark
)";

std::optional<std::string> Lookup(const std::string& name) {
  static const std::map<std::string, std::string> kVariables = {
      {"PORT", "6543"}, {"SECRET", "hunter2"}, {"WORD", "often"}};
  const auto found = kVariables.find(name);
  if (found == kVariables.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<v1::Config> Parse(const std::string& text) {
  return ParseConfig(text, "t.yaml", Lookup);
}

std::string Report(const std::string& text) {
  const auto config = Parse(text);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(config.status()), reason::kConfigInvalid);
  return std::string(config.status().message());
}

// The smallest configuration with lines put behind `user`, inside postgres.
std::string WithPostgres(const std::string& lines) { return kSmallest + lines; }

TEST(Config, DefaultsAreFilledIn) {
  const auto config = Parse(kSmallest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->listen(), "127.0.0.1:7654");
  EXPECT_EQ(config->drain_timeout().seconds(), 10);
  EXPECT_EQ(config->client_stall_timeout().seconds(), 1800);
  EXPECT_EQ(config->store().path(), "/var/lib/tidemark/store");
  EXPECT_EQ(config->store().cursor_keys_file(), "/var/lib/tidemark/store.cursor_keys");
  EXPECT_EQ(config->log().level(), "info");
  EXPECT_EQ(config->log().format(), "text");
  const v1::FeedConfig& feed = config->feeds(0);
  EXPECT_EQ(feed.retention().age().seconds(), 7 * 24 * 3600);
  EXPECT_EQ(feed.retention().bytes().bytes(), uint64_t{10} << 30);
  EXPECT_TRUE(feed.rows());
  EXPECT_EQ(feed.postgres().port(), 5432u);
  EXPECT_EQ(feed.postgres().slot(), "tidemark_my_shop");
  EXPECT_EQ(feed.postgres().publication(), "tidemark_my_shop");
  EXPECT_EQ(feed.postgres().sslmode(), "verify-full");
  EXPECT_EQ(feed.postgres().tables(0), "public.*");
  EXPECT_EQ(feed.postgres().silence_timeout().seconds(), 30);
  EXPECT_EQ(feed.postgres().catalog_period().seconds(), 5);
  EXPECT_FALSE(feed.postgres().stream_in_progress());
}

TEST(Config, EveryKeyIsRead) {
  const auto config = Parse(R"(
listen: '[::1]:${PORT}'
insecure: false
tls: {certificate_file: c.pem, key_file: k.pem}
metrics_listen: 0.0.0.0:9100
drain_timeout: 500ms
client_stall_timeout: 90s
log: {level: debug, file: /tmp/log, format: json}
store:
  path: s
  cursor_keys_file: k
  retention: {age: 12h, bytes: 64MiB}
feeds:
  - name: a
    rows: false
    rows_off: [public.log, 'public."Big.*"']
    retention: {age: 1d}
    postgres:
      host: /run/postgresql
      port: "${PORT}"
      database: d
      user: u
      password: a${SECRET}b
      sslmode: require
      sslrootcert: /ca
      tables: [public.*]
      slot: s1
      publication: P1
      silence_timeout: 5s
      catalog_period: 90s
      stream_in_progress: true
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->listen(), "[::1]:6543");
  EXPECT_EQ(config->drain_timeout().nanos(), 500'000'000);
  EXPECT_EQ(config->client_stall_timeout().seconds(), 90);
  EXPECT_EQ(config->log().format(), "json");
  const v1::FeedConfig& feed = config->feeds(0);
  EXPECT_FALSE(feed.rows());
  EXPECT_EQ(feed.rows_off(1), "public.\"Big.*\"");
  EXPECT_EQ(feed.retention().age().seconds(), 24 * 3600);
  EXPECT_EQ(feed.retention().bytes().bytes(), 64u << 20);
  EXPECT_EQ(feed.postgres().port(), 6543u);
  EXPECT_EQ(feed.postgres().password(), "ahunter2b");
  EXPECT_EQ(feed.postgres().catalog_period().seconds(), 90);
  EXPECT_TRUE(feed.postgres().stream_in_progress());
}

// proves S01, S03, S04, S05
TEST(Config, WhereCaptureEndsIsCheckedBeforeAnythingIsTouched) {
  const auto stop_at = [](const std::string& text) {
    return Parse("store: {path: s}\nfeeds:\n  - name: a\n    stop_at: " + text +
                 "\n    postgres: {host: h, database: d, user: u}\n");
  };
  for (const char* text : {"never", "now", "0/16B3748", "FFFFFFFF/0", "80000000/0",
                           "2026-03-01T12:00:00Z", "\"2026-03-01T12:00:00.5+02:00\""}) {
    const auto config = stop_at(text);
    EXPECT_TRUE(config.ok()) << text << ": " << config.status();
  }
  for (const char* text : {"0/0", "FFFFFFFF/FFFFFFFF", "16", "1/2/3", "latest", "tomorrow", "-1/0",
                           "12:00", "{position: 0/1}", "[now]"}) {
    const auto config = stop_at(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(std::string(config.status().message()),
                AllOf(HasSubstr("t.yaml:4:"), HasSubstr(": feeds[0].stop_at: ")))
        << text;
  }
}

TEST(Config, WhatIsDoneAboutABreakIsOneOfThreeWords) {
  const auto recovery = [](const std::string& text) {
    return Parse("store: {path: s}\nfeeds:\n  - name: a\n    recovery: " + text +
                 "\n    postgres: {host: h, database: d, user: u}\n");
  };
  for (const char* text : {"stop", "resnapshot", "gap_and_continue", "\"\""}) {
    EXPECT_TRUE(recovery(text).ok()) << text;
  }
  for (const char* text : {"Stop", "snapshot", "RECOVERY_POLICY_RESNAPSHOT", "1", "[stop]"}) {
    const auto config = recovery(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(std::string(config.status().message()),
                AllOf(HasSubstr("t.yaml:4:"), HasSubstr(": feeds[0].recovery: ")))
        << text;
  }
  EXPECT_THAT(std::string(recovery("snapshot").status().message()),
              HasSubstr("stop, resnapshot or gap_and_continue"));
}

// proves S32
TEST(Config, SlotNamesAreThoseThatPostgresAccepts) {
  const auto slot = [](const std::string& name) {
    return Parse(
               "store: {path: s}\nfeeds:\n  - name: a\n    postgres: {host: h, database: d, user: "
               "u, "
               "slot: " +
               name + "}\n")
        .ok();
  };
  EXPECT_TRUE(slot("a_1"));
  EXPECT_TRUE(slot(std::string(63, 'a')));
  for (const std::string& name : {std::string(64, 'a'), std::string("A"), std::string("a-b"),
                                  std::string("'a b'"), std::string("\xC3\xA4")}) {
    EXPECT_FALSE(slot(name)) << name;
  }
}

TEST(Config, LocalSourcesPreferTls) {
  for (const char* host : {"localhost", "127.0.0.1", "127.3.2.1", "::1", "/run/postgresql"}) {
    const auto config =
        Parse(std::string("store: {path: s}\nfeeds: [{name: a, postgres: {host: '") + host +
              "', database: d, user: u}}]\n");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->feeds(0).postgres().sslmode(), "prefer") << host;
  }
}

// proves R41, A53
TEST(Config, FeedsShareNeitherNameNorSlotNorPublication) {
  const std::string two = R"(store: {path: s}
feeds:
  - name: a-b
    postgres: {host: h, database: d, user: u}
  - name: a_b
    postgres: {host: h2, database: d, user: u}
  - name: a-b
    postgres: {host: h3, database: d, user: u, slot: tidemark_a_b, publication: p}
)";
  EXPECT_EQ(
      Report(two),
      "t.yaml:6:5: feeds[1].postgres.slot: the slot tidemark_a_b is that of the feed on line "
      "4; two feeds cannot share one\n"
      "t.yaml:6:5: feeds[1].postgres.publication: the publication tidemark_a_b is that of the "
      "feed on line 4; two feeds cannot share one\n"
      "t.yaml:7:5: feeds[2].name: the name a-b is that of the feed on line 3; two feeds "
      "cannot share one\n"
      "t.yaml:8:48: feeds[2].postgres.slot: the slot tidemark_a_b is that of the feed on line "
      "4; two feeds cannot share one");
}

TEST(Config, AllErrorsComeInOneReportInOrderOfPlace) {
  EXPECT_EQ(Report(R"(listen: nowhere
stor:
  path: s
store:
  path: s
  retension: {age: 7d}
  retention:
    age: 7 days
    bytes: 10GB
feeds:
  - name: Shop
    rows: yes
    postgres:
      host: h
      host: h2
      port: 99999999999
      database: [d]
      user: u
      sslmode: verifyfull
      tables: public.orders
log:
  level: verbose
)"),
            "t.yaml:1:1: listen: expects HOST:PORT, [V6]:PORT or unix:PATH\n"
            "t.yaml:2:1: stor: unknown key; did you mean \"store\"?\n"
            "t.yaml:6:3: store.retension: unknown key; did you mean \"retention\"?\n"
            "t.yaml:8:10: store.retention.age: expects a whole number with its unit: 500ms, 30s, "
            "5m, 12h or 7d, found \"7 days\"\n"
            "t.yaml:9:12: store.retention.bytes: expects a whole number with its unit: 100B, "
            "512KiB, 64MiB, 10GiB or 1TiB, found \"10GB\"\n"
            "t.yaml:11:5: feeds[0].name: expects 1 to 63 of a-z, 0-9, _ and -, a letter first\n"
            "t.yaml:12:11: feeds[0].rows: expects true or false, found \"yes\"\n"
            "t.yaml:15:7: feeds[0].postgres.host: given twice; first on line 14\n"
            "t.yaml:16:13: feeds[0].postgres.port: expects a whole number from 0 to 4294967295, "
            "found \"99999999999\"\n"
            "t.yaml:17:17: feeds[0].postgres.database: expects a value, found a list\n"
            "t.yaml:19:7: feeds[0].postgres.sslmode: unknown word \"verifyfull\"; did you mean "
            "\"verify-full\"?\n"
            "t.yaml:20:15: feeds[0].postgres.tables: expects a list, found a single value\n"
            "t.yaml:22:3: log.level: unknown word \"verbose\"; one of: trace, debug, info, warn, "
            "error");
}

struct BadFile {
  const char* text;
  const char* report;
};

class ConfigFile : public ::testing::TestWithParam<BadFile> {};

TEST_P(ConfigFile, IsRefusedAsAWhole) { EXPECT_EQ(Report(GetParam().text), GetParam().report); }

INSTANTIATE_TEST_SUITE_P(
    Forms, ConfigFile,
    ::testing::Values(
        BadFile{"", "t.yaml: the file is empty"},
        BadFile{"# nothing\n", "t.yaml: the file is empty"},
        BadFile{"- a\n", "t.yaml:1:1: expects keys with values, found a list"},
        BadFile{"text", "t.yaml:1:1: expects keys with values, found a single value"},
        BadFile{"store: &a {path: s}\n", "t.yaml:1:8: anchors are not accepted"},
        BadFile{"store: *a\n", "t.yaml:1:8: not YAML: the referenced anchor is not defined"},
        BadFile{"listen: !!int 5\n", "t.yaml:1:9: tags are not accepted"},
        BadFile{"listen: a\n---\nlisten: b\n", "t.yaml:3:1: a second document; the file holds one"},
        BadFile{"store: {path: [}\n", "t.yaml:1:16: not YAML: illegal flow end"}));

TEST(Config, NestingIsBounded) {
  for (const char* level : {"{a: ", "[", "- "}) {
    std::string text;
    for (size_t i = 0; i < 10'000; ++i) text += level;
    EXPECT_THAT(Report(text), ::testing::MatchesRegex("t.yaml:1:[0-9]+: nested too deeply"));
  }
}

TEST(Config, ANullByteIsNotYaml) {
  EXPECT_EQ(Report(std::string("store\0", 6)), "t.yaml: holds a NUL byte: this is not a YAML file");
}

TEST(Config, AHugeFileIsRefused) {
  EXPECT_EQ(Report(std::string(limits::config_file_bytes_max + 1, ' ')),
            "t.yaml: longer than 1048576 bytes");
}

TEST(Config, ErrorsBeyondTheBoundAreCounted) {
  std::string text = kSmallest;
  for (size_t i = 0; i < limits::config_errors_max + 5; ++i) text += fmt::format("k{}: 1\n", i);
  EXPECT_THAT(Report(text), ::testing::EndsWith("\nt.yaml: 5 more errors"));
}

TEST(Config, SecretsAreNeverShown) {
  const std::string report = Report(WithPostgres(R"(      password: [hunter1]
      password_file: f
      silence_timeout: ${SECRET}
      port: ${WORD}
      slot: ${MISSING}
)"));
  EXPECT_EQ(report,
            "t.yaml:9:17: feeds[0].postgres.password: expects a value, found a list\n"
            "t.yaml:11:24: feeds[0].postgres.silence_timeout: expects a whole number with its "
            "unit: 500ms, 30s, 5m, 12h or 7d\n"
            "t.yaml:12:13: feeds[0].postgres.port: expects a whole number from 0 to 4294967295\n"
            "t.yaml:13:13: feeds[0].postgres.slot: the environment variable MISSING is not set");
}

TEST(Config, APasswordComesFromOnePlace) {
  EXPECT_EQ(Report(WithPostgres("      password: x\n      password_file: f\n")),
            "t.yaml:10:7: feeds[0].postgres.password_file: given beside password; at most one of "
            "the two");
}

TEST(Config, WhatIsMissingIsNamed) {
  EXPECT_EQ(Report("feeds: [{name: a, postgres: {}}, {name: b}]\n"),
            "t.yaml: store.path: missing\n"
            "t.yaml:1:19: feeds[0].postgres.host: missing\n"
            "t.yaml:1:19: feeds[0].postgres.database: missing\n"
            "t.yaml:1:19: feeds[0].postgres.user: missing\n"
            "t.yaml:1:34: feeds[1]: expects one engine: postgres, poll or changelog");
}

TEST(Config, ClearTextStaysOnThisMachineUnlessSaidOtherwise) {
  for (const char* listen :
       {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "'[::1]:1'", "unix:/run/t.sock"}) {
    EXPECT_TRUE(Parse(std::string("listen: ") + listen + "\n" + kSmallest).ok()) << listen;
  }
  for (const char* listen : {"0.0.0.0:1", "db.example.com:1", "'[::]:1'", "127.evil.com:1"}) {
    const std::string text = std::string("listen: ") + listen + "\n" + kSmallest;
    EXPECT_EQ(
        Report(text),
        "t.yaml:1:1: listen: not a loopback address, and tls is not set: changes would travel "
        "in clear text; set tls, or insecure: true")
        << listen;
    EXPECT_TRUE(Parse("insecure: true\n" + text).ok()) << listen;
    EXPECT_TRUE(Parse("tls: {certificate_file: c, key_file: k}\n" + text).ok()) << listen;
  }
}

TEST(Config, TablesAreWrittenAsInFilters) {
  EXPECT_THAT(Report(WithPostgres("      tables: [public.orders, Orders]\n")),
              HasSubstr("t.yaml:9:31: feeds[0].postgres.tables[1]: "));
}

TEST(Config, ABadWordIsNotReportedTwice) {
  EXPECT_THAT(Report("store: 5\nfeeds: 6\n"), Not(HasSubstr("missing")));
}

TEST(Config, FilesThatCannotBeReadAreNamed) {
  testing::ScratchDir scratch("config");
  const std::string folder = scratch.path().string();
  EXPECT_EQ(LoadConfig(folder).status().message(), folder + ": a folder, not a file");
  EXPECT_EQ(LoadConfig(folder + "/none").status().message(),
            folder + "/none: cannot be read: No such file or directory");
  std::ofstream(folder + "/good.yaml") << kSmallest;
  EXPECT_TRUE(LoadConfig(folder + "/good.yaml").ok());
}

}  // namespace
}  // namespace tidemark
