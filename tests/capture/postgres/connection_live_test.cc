// Statements that a session is asked again and again, at a real server.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "capture/postgres/connection.h"
#include "tests/capture/postgres/live_session.h"

namespace tidemark::capture::postgres {
namespace {

class ConnectionLiveTest : public LiveSession {
 protected:
  std::string Again(const std::string& sql) {
    return TextOf(sql_->QueryAgain(sql, "asking again", Deadline()));
  }
  std::string Once(const std::string& sql) {
    return TextOf(sql_->Query(sql, "asking", Deadline()));
  }
  static std::string TextOf(const absl::StatusOr<ResultRows>& rows) {
    if (!rows.ok()) return std::string(rows.status().message());
    return rows->empty() ? "" : rows->Text(0, 0);
  }
};

TEST_F(ConnectionLiveTest, WhatIsAskedAgainIsPlannedOnceAndAnsweredAsOfNow) {
  Once("create table public.t (a int)");
  const std::string count = "select count(*) from public.t";
  for (int rows = 0; rows < 5; ++rows) {
    EXPECT_EQ(Again(count), std::to_string(rows));
    ASSERT_TRUE(postgres_->Exec("insert into t values (1)").ok());
  }
  EXPECT_EQ(Once("select concat_ws(' ', generic_plans, custom_plans) from pg_prepared_statements"),
            "5 0");
  // Another table of that name, and a transaction that sees no more of either.
  Once("begin isolation level repeatable read");
  EXPECT_EQ(Again(count), "5");
  ASSERT_TRUE(postgres_->Exec("insert into t values (1)").ok());
  EXPECT_EQ(Again(count), "5");
  Once("commit");
  ASSERT_TRUE(postgres_->Exec("drop table t; create table t (a int)").ok());
  EXPECT_EQ(Again(count), "0");
}

TEST_F(ConnectionLiveTest, TheServerKeepsABoundedNumberOfThem) {
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 40; ++i) EXPECT_EQ(Again(fmt::format("select {}", i)), std::to_string(i));
    EXPECT_EQ(Once("select count(*) between 1 and 16 from pg_prepared_statements"), "t");
  }
}

TEST_F(ConnectionLiveTest, OneThatWasRefusedMayBeAskedAgain) {
  const std::string sql = "select a from public.later";
  EXPECT_NE(Again(sql).find("does not exist"), std::string::npos);
  Once("create table public.later as select 7 as a");
  EXPECT_EQ(Again(sql), "7");
  // In a transaction that ends with an error, it stays as it was.
  Once("begin");
  EXPECT_EQ(Again("select 'kept'"), "kept");
  EXPECT_NE(Once("select 1/0").find("division by zero"), std::string::npos);
  Once("rollback");
  EXPECT_EQ(Again("select 'kept'"), "kept");
  EXPECT_EQ(Again(sql), "7");
}

}  // namespace
}  // namespace tidemark::capture::postgres
