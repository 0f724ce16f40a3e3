#include "capture/postgres/in_progress_spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/scratch_dir.h"
#include "tests/testing/seed.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Messages = std::vector<std::pair<uint64_t, std::string>>;

class InProgressSpoolTest : public ::testing::Test {
 protected:
  // What the disk of the machine has left is of no account here.
  static constexpr InProgressBounds kBounds = {.disk_free_bytes_min = 0};

  InProgressSpool Spool(const InProgressBounds& bounds = kBounds) {
    return {folder_.path(), "in_progress.shop", bounds};
  }
  static Messages All(InProgressSpool& spool, uint32_t xid) {
    Messages messages;
    while (true) {
      const auto message = spool.Next(xid);
      EXPECT_TRUE(message.ok()) << message.status();
      if (!message.ok() || !*message) return messages;
      messages.emplace_back((*message)->sent, (*message)->bytes);
    }
  }

  testing::ScratchDir folder_;
};

TEST_F(InProgressSpoolTest, SmallOnesStayInMemory) {
  InProgressSpool spool = Spool();
  ASSERT_TRUE(spool.Begin(7).ok());
  ASSERT_TRUE(spool.Add(7, 1, "one").ok());
  ASSERT_TRUE(spool.Add(7, 4, "").ok());
  ASSERT_TRUE(spool.Begin(8).ok());
  ASSERT_TRUE(spool.Add(8, 5, "other").ok());
  EXPECT_EQ(spool.transactions(), 2u);
  EXPECT_GT(spool.bytes(), 8u);
  EXPECT_THAT(All(spool, 7), ElementsAre(Pair(1, "one"), Pair(4, "")));
  EXPECT_THAT(All(spool, 7), IsEmpty()) << "its end stays its end";
  spool.Committed(7);
  EXPECT_FALSE(spool.Has(7));
  EXPECT_TRUE(spool.Has(8));
  spool.RolledBack(8);
  EXPECT_EQ(spool.bytes(), 0u);
  EXPECT_EQ(spool.committed(), 1u);
  EXPECT_EQ(spool.rolled_back(), 1u);
}

TEST_F(InProgressSpoolTest, LargeOnesComeBackAsTheyCame) {
  std::mt19937_64 random(testing::SeedFromEnvironment());
  InProgressSpool spool = Spool();
  std::map<uint32_t, Messages> sent;
  uint64_t place = 0;
  for (uint32_t xid = 1; xid <= 5; ++xid) ASSERT_TRUE(spool.Begin(xid).ok());
  for (int i = 0; i < 20'000; ++i) {
    const auto xid = static_cast<uint32_t>(1 + random() % 5);
    // A few are larger than what is written, or read, at a time.
    const size_t size =
        random() % 500 == 0 ? random() % (4 * kInProgressBufferBytes) : random() % 200;
    std::string bytes(size, static_cast<char>(random()));
    ASSERT_TRUE(spool.Add(xid, ++place, bytes).ok());
    sent[xid].emplace_back(place, std::move(bytes));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "a kill leaves nothing behind";
  for (uint32_t xid = 1; xid <= 5; ++xid) {
    EXPECT_TRUE(All(spool, xid) == sent[xid]) << xid;
    spool.Committed(xid);
  }
  EXPECT_EQ(spool.bytes(), 0u);
}

TEST_F(InProgressSpoolTest, KnowsWhichSubtransactionsWereRolledBack) {
  InProgressSpool spool = Spool();
  ASSERT_TRUE(spool.Begin(7).ok());
  ASSERT_TRUE(spool.Begin(20).ok());
  EXPECT_FALSE(spool.IsAborted(7, 9));
  ASSERT_TRUE(spool.AbortSubtransaction(7, 9).ok());
  ASSERT_TRUE(spool.AbortSubtransaction(7, 9).ok());
  EXPECT_TRUE(spool.IsAborted(7, 9));
  EXPECT_FALSE(spool.IsAborted(7, 7));
  EXPECT_FALSE(spool.IsAborted(20, 9));
}

TEST_F(InProgressSpoolTest, BeginsAnewWithEachConnection) {
  InProgressSpool spool = Spool();
  ASSERT_TRUE(spool.Begin(7).ok());
  ASSERT_TRUE(spool.Add(7, 1, std::string(100'000, 'x')).ok());
  ASSERT_TRUE(spool.AbortSubtransaction(7, 9).ok());
  spool.Clear();
  EXPECT_EQ(spool.transactions(), 0u);
  EXPECT_EQ(spool.bytes(), 0u);
  ASSERT_TRUE(spool.Begin(7).ok());
  EXPECT_FALSE(spool.IsAborted(7, 9));
  ASSERT_TRUE(spool.Add(7, 1, "again").ok());
  EXPECT_THAT(All(spool, 7), ElementsAre(Pair(1, "again")));
  EXPECT_EQ(spool.committed() + spool.rolled_back(), 0u);
}

// Each bound is named, and lasts.
TEST_F(InProgressSpoolTest, SaysWhyItHoldsNoMore) {
  const auto refused = [](InProgressSpool& spool, const absl::Status& status,
                          const std::string& because) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(spool.refusal(), HasSubstr(because));
    spool.Clear();
    EXPECT_THAT(spool.refusal(), HasSubstr(because));
  };
  InProgressBounds bounds = kBounds;
  bounds.transactions_max = 1;
  InProgressSpool transactions = Spool(bounds);
  ASSERT_TRUE(transactions.Begin(1).ok());
  refused(transactions, transactions.Begin(2), "more than 1 transactions");

  bounds = kBounds;
  bounds.bytes_max = 1000;
  InProgressSpool bytes = Spool(bounds);
  ASSERT_TRUE(bytes.Begin(1).ok() && bytes.Begin(2).ok());
  ASSERT_TRUE(bytes.Add(1, 1, std::string(500, 'x')).ok());
  EXPECT_EQ(bytes.refusal(), "");
  refused(bytes, bytes.Add(2, 2, std::string(500, 'x')), "more than 1000 bytes");

  bounds = kBounds;
  bounds.aborted_max = 2;
  InProgressSpool aborted = Spool(bounds);
  ASSERT_TRUE(aborted.Begin(1).ok());
  ASSERT_TRUE(aborted.AbortSubtransaction(1, 2).ok());
  ASSERT_TRUE(aborted.AbortSubtransaction(1, 3).ok());
  refused(aborted, aborted.AbortSubtransaction(1, 4), "more than 2 savepoints");

  bounds = kBounds;
  bounds.disk_free_bytes_min = uint64_t{1} << 62;
  InProgressSpool disk = Spool(bounds);
  ASSERT_TRUE(disk.Begin(1).ok());
  ASSERT_TRUE(disk.Add(1, 1, "small").ok());
  refused(disk, disk.Add(1, 2, std::string(kInProgressBufferBytes, 'x')), "the disk of ");

  InProgressSpool missing(folder_ / "missing", "in_progress.shop", kBounds);
  ASSERT_TRUE(missing.Begin(1).ok());
  refused(missing, missing.Add(1, 2, std::string(kInProgressBufferBytes, 'x')),
          (folder_ / "missing").string());

  EXPECT_NE(InProgressSpool("", "in_progress.shop").refusal(), "");
}

}  // namespace
}  // namespace tidemark::capture::postgres
