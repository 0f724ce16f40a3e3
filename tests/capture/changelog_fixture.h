// A PostgreSQL of the test's own with the changelog of deploy/sql/changelog, and sessions that a
// test steps through by hand. Every test has its own cluster: any writer in it moves the watermark.
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/value_json.h"
#include "tests/capture/postgres_fixture.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"

namespace tidemark::capture {

class ChangelogFixture : public PostgresFixture {
 protected:
  using PostgresFixture::PostgresFixture;

  void SetUp() override {
    PostgresFixture::SetUp();
    if (postgres_ != nullptr) RunFile(*postgres_, "create.sql");
  }

  static void RunFile(testing::LivePostgres& postgres, const std::string& name) {
    const auto path = testing::SourceDir() / "deploy/sql/changelog" / name;
    const absl::Status ran = postgres.Exec(testing::FileText(path));
    ASSERT_TRUE(ran.ok()) << name << ": " << ran;
  }
  // `tables` as in an array of PostgreSQL: "{item, part}".
  void Install(const std::string& tables) {
    Exec("SELECT tidemark.changelog_install('" + tables + "')");
  }

  static v1::FeedConfig ChangelogOf(const testing::LivePostgres& postgres,
                                    const std::string& strategy = "snapshot",
                                    uint32_t page_rows = 1000) {
    v1::FeedConfig config;
    config.set_name("shop");
    v1::ChangelogConfig* changelog = config.mutable_changelog();
    changelog->set_strategy(strategy);
    changelog->set_page_rows(page_rows);
    changelog->mutable_interval()->set_nanos(1'000'000);
    v1::PostgresLogin* login = changelog->mutable_postgres();
    login->set_host("127.0.0.1");
    login->set_port(postgres.port());
    login->set_database("postgres");
    login->set_user("postgres");
    return config;
  }

  std::unique_ptr<testing::PgSession> Session(const std::string& database = "postgres") {
    auto session = postgres_->Connect(database);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }
  static void Do(const std::unique_ptr<testing::PgSession>& session, const std::string& sql) {
    const absl::Status done = session->Exec(sql);
    ASSERT_TRUE(done.ok()) << done << " in " << sql;
  }

  // Until pulls began and ended that began after the call: what is visible now was told.
  static ::testing::AssertionResult Pulled(SourceDriver& driver, uint64_t pulls = 2) {
    const uint64_t before = driver.Status().changelog().pulls();
    return driver.ReadUntil(
        [&] { return driver.whole && driver.Status().changelog().pulls() >= before + pulls; });
  }
  // The row column of the changes, in order.
  static std::vector<std::string> Rows(const SourceDriver& driver) {
    std::vector<std::string> rows;
    for (const SeenTransaction& transaction : driver.transactions) {
      for (const SeenChange& change : transaction.changes) {
        rows.push_back(change.change.after_size() < 2 ? OpText(change.change.op())
                                                      : change.change.after(1).json());
      }
    }
    return rows;
  }
  // What the changes leave of a table, by the text of the key: highest (position, sequence) wins.
  static std::map<std::string, std::string> Folded(const SourceDriver& driver,
                                                   const std::string& table) {
    std::map<std::string, std::string> rows;
    for (const SeenTransaction& transaction : driver.transactions) {
      for (const SeenChange& change : transaction.changes) {
        if (change.schema.table_name() != table) continue;
        if (change.change.op() == v1::OP_TRUNCATE) rows.clear();
        if (change.change.op() == v1::OP_DELETE) rows.erase(change.change.key(0).json());
        if (change.change.after_size() < 2) continue;
        rows[change.change.after(0).json()] = change.change.after(1).json();
      }
    }
    return rows;
  }
  // The same of the table itself; `keys` as SQL names its columns.
  std::map<std::string, std::string> Held(const std::string& table,
                                          const std::vector<std::string>& keys) {
    std::string key;
    for (const std::string& name : keys) {
      key += fmt::format("{}'{}', t.{}", key.empty() ? "" : ", ", name, name);
    }
    const auto rows = postgres_->Query(fmt::format(
        "SELECT jsonb_build_object({})::text, pg_catalog.to_jsonb(t)::text FROM {} t", key, table));
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::map<std::string, std::string> held;
    if (!rows.ok()) return held;
    for (const auto& row : rows->rows) held[*row[0]] = *row[1];
    return held;
  }
};

}  // namespace tidemark::capture
