// A PostgreSQL of the test's own, and a driver of the source that captures it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/reason.h"
#include "tests/capture/source_driver.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/wait_until.h"

namespace tidemark::capture {

class PostgresFixture : public ::testing::Test {
 protected:
  explicit PostgresFixture(testing::LivePostgresOptions options = {})
      : options_(std::move(options)) {}

  void SetUp() override {
    absl::StatusOr<std::unique_ptr<testing::LivePostgres>> created =
        testing::LivePostgres::Create(options_);
    ASSERT_TRUE(created.ok()) << created.status();
    postgres_ = std::move(*created);
  }

  void Exec(const std::string& sql) {
    absl::Status status = postgres_->Exec(sql);
    ASSERT_TRUE(status.ok()) << status << " in " << sql;
  }
  // Statements one by one on one session: each is a transaction of its own, unless they say BEGIN.
  void ExecEach(const std::vector<std::string>& statements) {
    auto session = postgres_->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    for (const std::string& sql : statements) {
      absl::Status status = (*session)->Exec(sql);
      ASSERT_TRUE(status.ok()) << status << " in " << sql;
    }
  }
  std::string Value(const std::string& sql) {
    absl::StatusOr<std::string> value = postgres_->QueryValue(sql);
    EXPECT_TRUE(value.ok()) << value.status() << " in " << sql;
    return value.value_or("");
  }

  testing::LivePostgresOptions options_;
  std::unique_ptr<testing::LivePostgres> postgres_;
};

}  // namespace tidemark::capture
