#include "server/tail_hub.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/limits.h"
#include "tests/server/scripted_source.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {
namespace {

using testing::At;
using testing::SampleTransaction;

class CountingWaiter final : public TailWaiter {
 public:
  void OnNews() override { ++news; }
  std::atomic<int> news{0};
};

class TailHubTest : public ::testing::Test {
 protected:
  TailHubTest() { hub_.Start(At(10)); }

  void Publish(const std::vector<EncodedTransaction>& transactions, uint64_t head) {
    store::AppendBatch batch;
    batch.transactions = transactions;
    hub_.Publish(hub_.Prepare(batch), At(head));
  }

  // Positions of the transactions in what was taken.
  static std::vector<uint64_t> Positions(const TailTaken& taken) {
    std::vector<uint64_t> positions;
    for (const TailSpan& span : taken.spans) {
      const grpc::Slice bytes = span.bytes();
      v1::Batch batch;
      EXPECT_TRUE(batch.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())));
      for (const v1::Transaction& transaction : batch.transactions()) {
        positions.push_back(Position::FromText(transaction.position())->engine_low());
        EXPECT_EQ(transaction.cursor(), transaction.position());
      }
    }
    return positions;
  }

  TailHub hub_{[](const Position& at) { return at.Text(); }, 8'000};
};

TEST_F(TailHubTest, FollowersTakeWhatIsPublished) {
  hub_.Follow();
  EXPECT_EQ(hub_.Take(At(10), 1'000).kind, TailTaken::Kind::kCaughtUp);
  Publish({SampleTransaction(11, {1}), SampleTransaction(12, {2})}, 12);
  const TailTaken taken = hub_.Take(At(10), 1'000'000);
  ASSERT_EQ(taken.kind, TailTaken::Kind::kSpans);
  EXPECT_EQ(Positions(taken), (std::vector<uint64_t>{11, 12}));
  EXPECT_EQ(taken.upto, At(12));
  // A reader that comes from the store may stand anywhere.
  EXPECT_EQ(Positions(hub_.Take(At(11), 1'000'000)), (std::vector<uint64_t>{12}));
}

TEST_F(TailHubTest, TakesAtLeastOneTransactionAndAtMostTheBound) {
  hub_.Follow();
  Publish({SampleTransaction(11, {1}), SampleTransaction(12, {2}), SampleTransaction(13, {3})}, 13);
  Publish({SampleTransaction(14, {4})}, 14);
  EXPECT_EQ(Positions(hub_.Take(At(10), 1)), (std::vector<uint64_t>{11}));
  const TailTaken all = hub_.Take(At(10), 1'000'000);
  EXPECT_EQ(Positions(all), (std::vector<uint64_t>{11, 12, 13, 14}));
  size_t bytes = 0;
  for (const TailSpan& span : all.spans) bytes += span.size_bytes();
  EXPECT_EQ(Positions(hub_.Take(At(10), bytes - 1)), (std::vector<uint64_t>{11, 12, 13}));
}

TEST_F(TailHubTest, IdleProgressMovesTheHead) {
  hub_.Follow();
  Publish({}, 20);
  const TailTaken taken = hub_.Take(At(10), 1'000);
  EXPECT_EQ(taken.kind, TailTaken::Kind::kCaughtUp);
  EXPECT_EQ(taken.upto, At(20));
}

TEST_F(TailHubTest, NothingIsEncodedWithoutFollowers) {
  Publish({SampleTransaction(11, {1})}, 11);
  EXPECT_EQ(hub_.ring_bytes(), 0u);
  EXPECT_EQ(hub_.Take(At(10), 1'000).kind, TailTaken::Kind::kBehind);
  EXPECT_EQ(hub_.Take(At(11), 1'000).kind, TailTaken::Kind::kCaughtUp);
  hub_.Follow();
  Publish({SampleTransaction(12, {1})}, 12);
  EXPECT_GT(hub_.ring_bytes(), 0u);
  hub_.Unfollow();
  EXPECT_EQ(hub_.ring_bytes(), 0u);
}

TEST_F(TailHubTest, AFollowerBetweenPrepareAndPublishReadsFromTheStore) {
  store::AppendBatch batch;
  batch.transactions = {SampleTransaction(11, {1}), SampleTransaction(12, {1})};
  auto prepared = hub_.Prepare(batch);
  hub_.Follow();
  hub_.Publish(std::move(prepared), At(12));
  const TailTaken taken = hub_.Take(At(10), 1'000);
  EXPECT_EQ(taken.kind, TailTaken::Kind::kInStore);
  EXPECT_EQ(taken.upto, At(12));
}

TEST_F(TailHubTest, LargeTransactionsStandInTheStore) {
  hub_.Follow();
  store::AppendBatch batch;
  batch.transactions = {SampleTransaction(11, {1}), SampleTransaction(13, {1})};
  batch.spooled.push_back({.handle = 1, .position = At(12), .record = {}});
  hub_.Publish(hub_.Prepare(batch), At(13));
  EXPECT_EQ(Positions(hub_.Take(At(10), 1'000'000)), (std::vector<uint64_t>{11}));
  const TailTaken large = hub_.Take(At(11), 1'000'000);
  EXPECT_EQ(large.kind, TailTaken::Kind::kInStore);
  EXPECT_EQ(large.upto, At(12));
  EXPECT_EQ(Positions(hub_.Take(At(12), 1'000'000)), (std::vector<uint64_t>{13}));
}

// proves S10, S18
TEST_F(TailHubTest, TakesNothingBeyondALimit) {
  hub_.Follow();
  Publish({SampleTransaction(11, {1}), SampleTransaction(13, {2}), SampleTransaction(15, {3})}, 16);
  const auto upto = [](uint64_t position) { return TailLimit{.position = At(position)}; };
  EXPECT_EQ(Positions(hub_.Take(At(10), 1'000'000, upto(13))), (std::vector<uint64_t>{11, 13}));
  EXPECT_EQ(Positions(hub_.Take(At(10), 1'000'000, upto(14))), (std::vector<uint64_t>{11, 13}));
  TailTaken taken = hub_.Take(At(13), 1'000'000, upto(14));
  EXPECT_EQ(taken.kind, TailTaken::Kind::kCaughtUp);
  EXPECT_EQ(taken.upto, At(14));
  EXPECT_EQ(taken.proved, At(16));
  taken = hub_.Take(At(15), 1'000'000, upto(99));
  EXPECT_EQ(taken.kind, TailTaken::Kind::kCaughtUp);
  EXPECT_EQ(taken.upto, At(16)) << "not beyond what is there";
  // By commit time; that of transaction N is N seconds.
  const TailLimit early{.position = std::nullopt, .commit_time_us_max = 13'999'999};
  EXPECT_EQ(Positions(hub_.Take(At(10), 1'000'000, early)), (std::vector<uint64_t>{11, 13}));
  taken = hub_.Take(At(13), 1'000'000, early);
  EXPECT_EQ(taken.kind, TailTaken::Kind::kTooLate);
  EXPECT_EQ(taken.upto, At(15));
  // In the store, too, nothing beyond the limit is asked for.
  store::AppendBatch batch;
  batch.spooled.push_back({.handle = 1, .position = At(17), .record = {}});
  hub_.Publish(hub_.Prepare(batch), At(17));
  EXPECT_EQ(hub_.Take(At(16), 1'000, upto(16)).kind, TailTaken::Kind::kCaughtUp);
  EXPECT_EQ(hub_.Take(At(16), 1'000, upto(17)).kind, TailTaken::Kind::kInStore);
}

// proves S14, S19
TEST_F(TailHubTest, ProofWakesWhoeverWaitsForIt) {
  hub_.Follow();
  auto waiter = std::make_shared<CountingWaiter>();
  ASSERT_TRUE(hub_.Wait(At(10), waiter, At(30)));
  Publish({}, 29);
  EXPECT_EQ(waiter->news, 0);
  Publish({}, 31);
  EXPECT_EQ(waiter->news, 1);
  EXPECT_FALSE(hub_.Wait(At(31), waiter, At(31))) << "it is proved already";
  ASSERT_TRUE(hub_.Wait(At(31), waiter, At(40)));
  // A source that ended at its bound proved more than it read.
  hub_.Publish({}, At(31), At(40));
  EXPECT_EQ(waiter->news, 2);
  EXPECT_EQ(hub_.head(), At(31));
  EXPECT_EQ(hub_.proved(), At(40));
}

// proves B155
TEST_F(TailHubTest, TheRingIsBoundedAndASlowReaderFallsOutOfIt) {
  hub_.Follow();
  Position fast = At(10);
  for (uint64_t number = 11; number < 200; ++number) {
    Publish({SampleTransaction(number, {1, 2, 3})}, number);
    const TailTaken taken = hub_.Take(fast, 1'000'000);
    ASSERT_EQ(Positions(taken), (std::vector<uint64_t>{number}));
    fast = taken.upto;
    ASSERT_LE(hub_.ring_bytes(), 8'000u);
  }
  EXPECT_EQ(hub_.Take(At(10), 1'000).kind, TailTaken::Kind::kBehind);
}

TEST_F(TailHubTest, BytesThatAReaderHoldsOutliveTheRing) {
  hub_.Follow();
  Publish({SampleTransaction(11, {1})}, 11);
  const TailTaken taken = hub_.Take(At(10), 1'000);
  const grpc::Slice held = taken.spans[0].bytes();
  hub_.Unfollow();
  v1::Batch batch;
  EXPECT_TRUE(batch.ParseFromArray(held.begin(), static_cast<int>(held.size())));
}

TEST_F(TailHubTest, WakesWaitersOnceAndOnlyForTransactions) {
  auto waiter = std::make_shared<CountingWaiter>();
  hub_.Follow();
  ASSERT_TRUE(hub_.Wait(At(10), waiter));
  ASSERT_TRUE(hub_.Wait(At(10), waiter));
  Publish({}, 20);
  EXPECT_EQ(waiter->news, 0);
  Publish({SampleTransaction(21, {1})}, 21);
  EXPECT_EQ(waiter->news, 1);
  Publish({SampleTransaction(22, {1})}, 22);
  EXPECT_EQ(waiter->news, 1);
  EXPECT_FALSE(hub_.Wait(At(21), waiter));
  ASSERT_TRUE(hub_.Wait(At(22), waiter));
  hub_.StopWaiting(waiter.get());
  EXPECT_EQ(waiter.use_count(), 1);
}

}  // namespace
}  // namespace tidemark
