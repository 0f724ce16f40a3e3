// A status of more tables than one message holds.
#include "server/status_size.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "server/limits.h"

namespace tidemark {
namespace {

void AddTables(int count, v1::TableFollowState state, v1::FeedStatus* feed) {
  for (int i = 0; i < count; ++i) {
    v1::TableStatus* table = feed->add_tables();
    table->set_table(fmt::format("public.{}_{}", v1::TableFollowState_Name(state), i));
    table->set_state(state);
    table->set_detail(std::string(100, 'd'));
    if (state == v1::TABLE_FOLLOW_STATE_FAILED) table->mutable_error()->set_reason("TABLE_LOST");
  }
}

int CountOf(const v1::FeedStatus& feed, v1::TableFollowState state) {
  int count = 0;
  for (const v1::TableStatus& table : feed.tables()) count += table.state() == state ? 1 : 0;
  return count;
}

TEST(StatusSize, AStatusThatFitsStaysAsItIs) {
  v1::GetStatusResponse status;
  AddTables(100, v1::TABLE_FOLLOW_STATE_FOLLOWED, status.add_feeds());
  const std::string before = status.SerializeAsString();
  FitStatus(limits::message_bytes_max, &status);
  EXPECT_EQ(status.SerializeAsString(), before);
  EXPECT_EQ(status.feeds(0).tables_left_out(), 0u);
}

TEST(StatusSize, TablesInAGoodStateGoFirst) {
  v1::GetStatusResponse status;
  for (int i = 0; i < 2; ++i) {
    v1::FeedStatus* feed = status.add_feeds();
    AddTables(30'000, v1::TABLE_FOLLOW_STATE_FOLLOWED, feed);
    AddTables(10, v1::TABLE_FOLLOW_STATE_READING, feed);
    AddTables(10, v1::TABLE_FOLLOW_STATE_FAILED, feed);
    feed->add_table_problems()->set_table("public.problem");
  }
  ASSERT_GT(status.ByteSizeLong(), limits::message_bytes_max);
  FitStatus(limits::message_bytes_max, &status);
  EXPECT_LE(status.ByteSizeLong(), limits::message_bytes_max);
  EXPECT_GT(status.ByteSizeLong(), limits::message_bytes_max - limits::kMiB) << "no more than must";
  for (const v1::FeedStatus& feed : status.feeds()) {
    EXPECT_EQ(CountOf(feed, v1::TABLE_FOLLOW_STATE_READING), 10);
    EXPECT_EQ(CountOf(feed, v1::TABLE_FOLLOW_STATE_FAILED), 10);
    EXPECT_EQ(feed.table_problems_size(), 1);
    EXPECT_EQ(feed.tables_left_out() + static_cast<uint32_t>(feed.tables_size()), 30'020u);
  }
}

TEST(StatusSize, ThoseThatNeedAPersonGoLast) {
  v1::GetStatusResponse status;
  v1::FeedStatus* feed = status.add_feeds();
  AddTables(1'000, v1::TABLE_FOLLOW_STATE_FOLLOWED, feed);
  AddTables(1'000, v1::TABLE_FOLLOW_STATE_REMOVED, feed);
  AddTables(40'000, v1::TABLE_FOLLOW_STATE_FAILED, feed);
  FitStatus(limits::message_bytes_max, &status);
  EXPECT_LE(status.ByteSizeLong(), limits::message_bytes_max);
  EXPECT_EQ(CountOf(*feed, v1::TABLE_FOLLOW_STATE_FOLLOWED), 0);
  EXPECT_EQ(CountOf(*feed, v1::TABLE_FOLLOW_STATE_REMOVED), 0);
  const int failed = CountOf(*feed, v1::TABLE_FOLLOW_STATE_FAILED);
  EXPECT_GT(failed, 10'000);
  EXPECT_EQ(feed->tables_left_out(), static_cast<uint32_t>(42'000 - failed));
}

TEST(StatusSize, TheSnapshotAndThePollsOfAFeedAreCountedToo) {
  v1::GetStatusResponse status;
  v1::FeedStatus* feed = status.add_feeds();
  for (int i = 0; i < 50'000; ++i) {
    v1::TableSnapshotStatus* read = feed->mutable_snapshot()->add_tables();
    read->set_table(fmt::format("public.a_table_that_was_read_{}", i));
    read->set_finished(i > 0);
    v1::PolledTableStatus* polled = feed->mutable_poll()->add_tables();
    polled->set_table(fmt::format("public.a_polled_table_{}", i));
    polled->set_poison_rows(i == 0 ? 1 : 0);
    polled->set_bound(std::string(60, 'b'));
  }
  FitStatus(limits::message_bytes_max, &status);
  EXPECT_LE(status.ByteSizeLong(), limits::message_bytes_max);
  ASSERT_GT(feed->snapshot().tables_size(), 0);
  EXPECT_FALSE(feed->snapshot().tables(0).finished());
  ASSERT_GT(feed->poll().tables_size(), 0);
  EXPECT_EQ(feed->poll().tables(0).poison_rows(), 1u);
  EXPECT_EQ(feed->tables_left_out(),
            100'000u -
                static_cast<uint32_t>(feed->snapshot().tables_size() + feed->poll().tables_size()));
}

}  // namespace
}  // namespace tidemark
