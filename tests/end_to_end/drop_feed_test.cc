// A feed that is dropped with its slot and its publication, and nothing that is somebody else's;
// refused as a whole while the source is away; killed between its steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/testing/built_paths.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/process.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kCursorRefused = 4;

class DropFeedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Sql("create table item (id int primary key); insert into item values (1), (2)");
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
  }

  void Sql(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done;
  }
  std::string Value(const std::string& sql) { return postgres_->QueryValue(sql).value_or("?"); }
  std::string Slots() {
    return Value(
        "select string_agg(slot_name, ',' order by slot_name) from pg_replication_slots where "
        "slot_name <> 'witness'");
  }
  std::string Publications() {
    return Value("select string_agg(pubname, ',' order by pubname) from pg_publication");
  }
  CommandResult Run(const std::vector<std::string>& arguments) {
    const auto result = tidemark_->Run(arguments);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(CommandResult());
  }
  std::string Cursor() {
    std::string cursor = Run({"cursor", "resolve", "main", "latest"}).out;
    return cursor.substr(0, cursor.find_first_of(" \n"));
  }
  // Of a server that does not run.
  std::string FeedsOfTheStore() {
    ProcessOptions options;
    options.argv = {(BuildDir() / "store/logdump").string(), "feeds",
                    tidemark_->store_dir().string()};
    options.output_dir = tidemark_->scratch_dir();
    options.name = "feeds";
    const auto printed = RunCommand(std::move(options), seconds(60));
    EXPECT_TRUE(printed.ok()) << printed.status();
    return printed.value_or("?");
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
};

// proves S26, S28
TEST_F(DropFeedTest, WhatIsItsOwnGoesAndNothingElse) {
  Sql("select pg_create_logical_replication_slot('foreign_logical', 'pgoutput')");
  Sql("select pg_create_physical_replication_slot('foreign_physical', true)");
  Sql("create publication foreign_publication for table item");
  ASSERT_TRUE(tidemark_->Start().ok()) << tidemark_->Diagnostics();
  EXPECT_EQ(Slots(), "foreign_logical,foreign_physical,tidemark_main");
  EXPECT_EQ(Publications(), "foreign_publication,tidemark_main");
  const std::string cursor = Cursor();
  v1::SubscribeRequest request;
  request.set_feed("main");
  RecordedStream recording("of a feed that is dropped");
  recording.DoNotCheck();
  LiveSubscriber subscriber(tidemark_->address(), request, &recording);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(seconds(60)));

  EXPECT_EQ(Run({"feed", "drop", "main"}).exit_code, 2) << "not without a word";
  const CommandResult dropped = Run({"feed", "drop", "main", "--yes"});
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err << tidemark_->Diagnostics();
  EXPECT_THAT(dropped.out, HasSubstr("dropped slot tidemark_main"));
  EXPECT_THAT(dropped.out, HasSubstr("dropped publication tidemark_main"));
  EXPECT_THAT(dropped.out, HasSubstr("begins it afresh"));
  EXPECT_EQ(Slots(), "foreign_logical,foreign_physical");
  EXPECT_EQ(Publications(), "foreign_publication");
  ASSERT_TRUE(subscriber.ReadToEnd(seconds(60)));
  EXPECT_THAT(subscriber.end().error_details(), HasSubstr("FEED_DROPPED"));
  EXPECT_THAT(Run({"status"}).out, Not(HasSubstr("main")));
  ASSERT_EQ(tidemark_->Stop().value_or(-1), 0) << tidemark_->Diagnostics();
  EXPECT_TRUE(tidemark_->VerifyStore().ok());
  EXPECT_THAT(FeedsOfTheStore(), Not(HasSubstr("main")));

  // Where the configuration still names it.
  ASSERT_TRUE(tidemark_->Start().ok()) << tidemark_->Diagnostics();
  EXPECT_EQ(Slots(), "foreign_logical,foreign_physical,tidemark_main");
  const CommandResult old = Run({"cursor", "inspect", "main", cursor});
  EXPECT_THAT(old.out + old.err, HasSubstr("CURSOR_OTHER_FEED"));
  EXPECT_EQ(old.exit_code, kCursorRefused);
}

TEST_F(DropFeedTest, APublicationThatWasThereBeforeIsLeft) {
  Sql("create publication tidemark_main for table item");
  ASSERT_TRUE(tidemark_->Start().ok()) << tidemark_->Diagnostics();
  const CommandResult dropped = Run({"feed", "drop", "main", "--yes"});
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("left at the source: publication tidemark_main"));
  EXPECT_EQ(Slots(), "");
  EXPECT_EQ(Publications(), "tidemark_main");
}

TEST_F(DropFeedTest, ASourceThatIsAwayRefusesIt) {
  ASSERT_TRUE(tidemark_->Start().ok()) << tidemark_->Diagnostics();
  const std::string cursor = Cursor();
  ASSERT_TRUE(postgres_->Stop().ok());
  const CommandResult refused = Run({"feed", "drop", "main", "--yes"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("SOURCE_UNREACHABLE"));
  EXPECT_THAT(refused.err, HasSubstr("SELECT pg_drop_replication_slot('tidemark_main')"));
  ASSERT_TRUE(postgres_->Start().ok());
  const absl::Status streams = tidemark_->WaitUntilStreaming();
  ASSERT_TRUE(streams.ok()) << streams;
  EXPECT_EQ(Run({"cursor", "inspect", "main", cursor}).exit_code, 0) << "it is whole";

  const CommandResult dropped = Run({"feed", "drop", "main", "--yes", "--keep-slot"});
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("left at the source: slot tidemark_main"));
  EXPECT_EQ(Slots(), "tidemark_main");
  EXPECT_EQ(tidemark_->Stop().value_or(-1), 0);
  EXPECT_THAT(FeedsOfTheStore(), Not(HasSubstr("main")));
}

class DropFeedKilled : public DropFeedTest, public ::testing::WithParamInterface<std::string> {};

// proves S26
TEST_P(DropFeedKilled, IsFinishedByTheNextStart) {
  ASSERT_TRUE(tidemark_->Start().ok()) << tidemark_->Diagnostics();
  const std::string cursor = Cursor();
  ASSERT_EQ(tidemark_->Stop().value_or(-1), 0);
  ASSERT_TRUE(tidemark_->Launch({"--crash-at", GetParam() + ":1"}).ok());
  const absl::Status streams = tidemark_->WaitUntilStreaming();
  ASSERT_TRUE(streams.ok()) << streams;
  EXPECT_NE(Run({"feed", "drop", "main", "--yes"}).exit_code, 0);
  ASSERT_TRUE(tidemark_->process().WaitForExit(seconds(60)).ok());
  EXPECT_EQ(Slots(), GetParam() == "drop_noted" ? "tidemark_main" : "");

  // The slot that was left is the new feed's own, and made again.
  ASSERT_TRUE(tidemark_->Start().ok()) << tidemark_->Diagnostics();
  EXPECT_EQ(Slots(), "tidemark_main");
  const CommandResult old = Run({"cursor", "inspect", "main", cursor});
  EXPECT_THAT(old.out + old.err, HasSubstr("CURSOR_OTHER_FEED"));
  const CommandResult dropped = Run({"feed", "drop", "main", "--yes"});
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_EQ(Slots(), "");
  EXPECT_EQ(Publications(), "") << "still known to be the feed's";
}

INSTANTIATE_TEST_SUITE_P(Steps, DropFeedKilled, ::testing::Values("drop_noted", "source_dropped"),
                         [](const auto& step) { return step.param; });

}  // namespace
}  // namespace tidemark::testing
