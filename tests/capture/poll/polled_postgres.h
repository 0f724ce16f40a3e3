// A PostgreSQL whose tables are polled.
#pragma once

#include <memory>
#include <string>

#include "tests/capture/poll/poll_driver.h"
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {

class PolledPostgres : public PostgresFixture {
 protected:
  using PostgresFixture::PostgresFixture;

  void SetUp() override {
    PostgresFixture::SetUp();
    if (HasFatalFailure()) return;
    Exec(
        "CREATE TABLE t (id int PRIMARY KEY, a text, at timestamptz NOT NULL DEFAULT "
        "clock_timestamp()); CREATE INDEX ON t (at, id)");
  }

  // Reads the rows that are there.
  std::unique_ptr<PollDriver> Begin(const v1::FeedConfig& config) {
    auto driver = std::make_unique<PollDriver>(config);
    EXPECT_TRUE(driver->ReadUntilWhole());
    return driver;
  }
  std::unique_ptr<PollDriver> Begin() { return Begin(PolledFeedOf(*postgres_)); }

  std::unique_ptr<testing::PgSession> Session() {
    auto session = postgres_->Connect();
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
};

}  // namespace tidemark::capture
