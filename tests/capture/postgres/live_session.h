// For tests of what is asked of a database: a real server, and a session of the product's at it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/target.h"
#include "tests/testing/live_postgres.h"

namespace tidemark::capture::postgres {

class LiveSession : public ::testing::Test {
  const testing::LivePostgresOptions options_;
  // Outlives the session.
  Interruption never_;

 protected:
  explicit LiveSession(testing::LivePostgresOptions options = {}) : options_(std::move(options)) {}

  // As its superuser, in the database "postgres".
  void SetUp() override {
    auto postgres = testing::LivePostgres::Create(options_);
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Target target;
    target.host = "127.0.0.1";
    target.port = postgres_->port();
    target.database = "postgres";
    target.user = "postgres";
    auto sql = Connection::Open(target, Connection::Kind::kSql, &never_, Deadline());
    ASSERT_TRUE(sql.ok()) << sql.status();
    sql_ = *std::move(sql);
  }

  static absl::Time Deadline() { return absl::Now() + absl::Seconds(20); }

  std::unique_ptr<testing::LivePostgres> postgres_;
  std::unique_ptr<Connection> sql_;
};

}  // namespace tidemark::capture::postgres
