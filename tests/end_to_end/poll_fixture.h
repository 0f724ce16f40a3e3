// A PostgreSQL that cannot be captured by its log, a role that may do nothing but SELECT, and a
// server that polls: what its subscribers make of a table is compared with the table.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/end_to_end/page_stop.h"
#include "tests/end_to_end/polled_feed.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/witness.h"

namespace tidemark::testing {

struct PollOptions {
  std::string name = "main";
  std::string database = "postgres";
  // Entries of `tables`, e.g. "{table: public.t, cursor: at}".
  std::vector<std::string> tables;
  // Lines of YAML below poll, over those of the fixture, e.g. "overlap: 5s".
  std::vector<std::string> lines;
};

// A feed of a configuration file. `postgres_port` is where its source listens.
inline std::string PollYaml(const PollOptions& options, uint16_t postgres_port) {
  std::string yaml = fmt::format(
      "  - name: {}\n    poll:\n      postgres: {{host: 127.0.0.1, port: {}, database: {}, "
      "user: poller}}\n",
      options.name, postgres_port, options.database);
  for (const std::string line : {"interval: 100ms", "delay: 0s", "overlap: 30s", "page_rows: 3"}) {
    const std::string key = line.substr(0, line.find(':') + 1);
    const bool given = std::any_of(options.lines.begin(), options.lines.end(),
                                   [&](const auto& other) { return other.starts_with(key); });
    if (!given) yaml += "      " + line + "\n";
  }
  for (const std::string& line : options.lines) yaml += "      " + line + "\n";
  yaml += "      tables:\n";
  for (const std::string& table : options.tables) yaml += "        - " + table + "\n";
  return yaml;
}

// Nothing but SELECT, and no log to be read: polling needs no more.
inline LivePostgresOptions PolledPostgres() {
  LivePostgresOptions options;
  options.settings = {
      {"wal_level", "minimal"}, {"max_wal_senders", "0"}, {"max_replication_slots", "0"}};
  return options;
}
inline constexpr char kMakePoller[] =
    "create role poller login; alter role poller set default_transaction_read_only = on; alter "
    "default privileges grant select on tables to poller";

class PollFixture : public ::testing::Test {
 protected:
  void SetUp() override { SetUpPostgres(PolledPostgres()); }

  void SetUpPostgres(LivePostgresOptions options) {
    auto postgres = LivePostgres::Create(std::move(options));
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Exec({kMakePoller});
  }

  // The server that the configuration is written for then finds its source behind a PageStop.
  void StandBetween() {
    auto pages = PageStop::Start(postgres_->port());
    ASSERT_TRUE(pages.ok()) << pages.status();
    pages_ = *std::move(pages);
  }

  void WriteConfig(const std::vector<PollOptions>& feeds) {
    if (tidemark_ == nullptr) tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    std::ofstream config(tidemark_->config_file(), std::ios::trunc);
    config << fmt::format("listen: {}\nstore:\n  path: {}\nfeeds:\n", tidemark_->address(),
                          tidemark_->store_dir().string());
    uint16_t port = standby_ != nullptr ? standby_->port() : postgres_->port();
    if (pages_ != nullptr) port = pages_->port();
    for (const PollOptions& feed : feeds) config << PollYaml(feed, port);
  }

  void Launch(const std::vector<std::string>& arguments = {}) {
    const absl::Status launched = tidemark_->Launch(arguments);
    ASSERT_TRUE(launched.ok()) << launched;
    // What the log holds is not what a poll can promise.
    CallWitness(tidemark_->address(), "main", nullptr);
  }

  // Starts the server on the configuration that there is, and waits until `name` polls.
  void Start(const std::string& name = "main") {
    Launch();
    WaitUntilPolling(name);
  }
  void WaitUntilPolling(const std::string& name) {
    PolledFeed probe(tidemark_->address(), name);
    v1::FeedStatus status;
    ASSERT_TRUE(WaitUntil(
        [&] {
          status = probe.Status();
          // The first poll has ended, and what it read is published.
          return status.source_state() == v1::SOURCE_STATE_STREAMING && status.poll().polls() > 0 &&
                 !status.head().position().empty();
        },
        PolledFeed::kDeadline,
        [&] { return status.DebugString() + "\n" + tidemark_->Diagnostics(); }));
  }

  void StartFeeds(const std::vector<PollOptions>& feeds) {
    WriteConfig(feeds);
    Launch();
    for (const PollOptions& feed : feeds) {
      WaitUntilPolling(feed.name);
      if (HasFatalFailure()) return;
      feeds_.push_back(std::make_unique<PolledFeed>(tidemark_->address(), feed.name));
      ASSERT_TRUE(feeds_.back()->ReadToHead()) << tidemark_->Diagnostics();
    }
  }

  void Restart() {
    const auto stopped = tidemark_->Stop();
    ASSERT_TRUE(stopped.ok()) << stopped.status() << tidemark_->Diagnostics();
    ASSERT_EQ(*stopped, 0) << tidemark_->Diagnostics();
    Start();
  }
  // A server that dies when it has read the pages of a poll before this one, behind StandBetween.
  void LaunchToDieBefore(int page) {
    pages_->HoldBefore(page);
    Launch();
    ASSERT_TRUE(WaitUntil([&] { return pages_->held(); }, PolledFeed::kDeadline,
                          [&] {
                            return fmt::format("no poll came to page {}: {}", page,
                                               tidemark_->Diagnostics());
                          }));
    tidemark_->Kill9();
    pages_->Release();
  }
  void KillAndStart() {
    tidemark_->Kill9();
    Start();
  }

  // One by one on one session, unless they say BEGIN.
  void Exec(const std::vector<std::string>& statements) {
    auto session = postgres_->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    for (const std::string& sql : statements) {
      const absl::Status status = (*session)->Exec(sql);
      ASSERT_TRUE(status.ok()) << status << " in " << sql;
    }
  }
  std::string Value(const std::string& sql) {
    const auto value = postgres_->QueryValue(sql);
    EXPECT_TRUE(value.ok()) << value.status() << " in " << sql;
    return value.value_or("");
  }
  ::testing::AssertionResult WaitForSource(const std::string& condition) {
    return WaitUntil([&] { return Value("select " + condition) == "t"; }, PolledFeed::kDeadline,
                     [&] { return condition; });
  }

  // Text of every row that a query gives, sorted, as PolledFeed::Rows has it.
  std::vector<std::string> There(const std::string& query, const std::string& database) {
    std::vector<std::string> rows;
    auto session = postgres_->Connect(
        database, "options='-c TimeZone=UTC -c DateStyle=ISO -c bytea_output=hex'");
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return rows;
    const auto found = (*session)->Query(query);
    EXPECT_TRUE(found.ok()) << found.status() << " in " << query;
    if (!found.ok()) return rows;
    for (const auto& row : found->rows) {
      Columns columns;
      for (size_t i = 0; i < row.size(); ++i) columns[found->columns[i]] = row[i];
      rows.push_back(DescribeColumns(columns));
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  std::vector<std::string> There(const std::string& query) { return There(query, "postgres"); }

  PolledFeed& feed() { return *feeds_.front(); }

  std::unique_ptr<LivePostgres> postgres_;
  // The source of the feeds where there is one.
  std::unique_ptr<LivePostgres> standby_;
  // Between the server and its source where a test wants it.
  std::unique_ptr<PageStop> pages_;
  std::unique_ptr<LiveTidemark> tidemark_;
  // They end before the server does.
  std::vector<std::unique_ptr<PolledFeed>> feeds_;
};

}  // namespace tidemark::testing
