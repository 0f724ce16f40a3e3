#include "capture/postgres/table_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::HasSubstr;

v1::FeedStatus StatusOf(const TableDesk& desk) {
  v1::FeedStatus status;
  desk.Fill(&status);
  return status;
}

TEST(TableDeskTest, ALookThatFailsIsShownUntilAGoodOne) {
  TableDesk desk;
  desk.SetStreaming(true);
  EXPECT_FALSE(StatusOf(desk).has_last_error());
  const absl::Status failure =
      ErrorWithReason(absl::StatusCode::kPermissionDenied, reason::kSourcePrivilege, "not allowed");
  desk.SetLookFailure(failure, absl::FromUnixSeconds(100));
  desk.SetLookFailure(failure, absl::FromUnixSeconds(101));
  const v1::FeedStatus failed = StatusOf(desk);
  EXPECT_EQ(failed.last_error().reason(), reason::kSourcePrivilege);
  EXPECT_THAT(failed.last_error().message(), HasSubstr("not allowed"));
  EXPECT_EQ(failed.last_error().at().seconds(), 101);
  EXPECT_TRUE(failed.last_error().retried());
  EXPECT_EQ(failed.last_error().attempts(), 2u);
  // What else is wrong comes first.
  v1::FeedStatus other;
  other.mutable_last_error()->set_reason("SLOT_LOST");
  desk.Fill(&other);
  EXPECT_EQ(other.last_error().reason(), "SLOT_LOST");

  desk.SetLookFailure(absl::OkStatus(), absl::FromUnixSeconds(102));
  EXPECT_FALSE(StatusOf(desk).has_last_error());
  desk.SetLookFailure(failure, absl::FromUnixSeconds(103));
  EXPECT_EQ(StatusOf(desk).last_error().attempts(), 1u);
  desk.SetStreaming(false);
  EXPECT_FALSE(StatusOf(desk).has_last_error()) << "nothing is looked at";
}

TEST(TableDeskTest, TablesWaitUntilTheyAreTaken) {
  TableDesk desk;
  EXPECT_FALSE(desk.TakeTables());
  desk.PutTables({*TablePattern::Parse("public.a")});
  desk.PutTables({*TablePattern::Parse("public.b")});
  desk.SetStreaming(true);
  desk.SetStreaming(false);
  const auto tables = desk.TakeTables();
  ASSERT_TRUE(tables);
  ASSERT_EQ(tables->size(), 1u);
  EXPECT_EQ(tables->front().Text(), "public.b") << "the newest list holds";
  EXPECT_FALSE(desk.TakeTables());
}

}  // namespace
}  // namespace tidemark::capture::postgres
