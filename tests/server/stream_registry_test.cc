#include "server/stream_registry.h"

#include <gtest/gtest.h>

#include "proto/reason.h"
#include "tests/server/scripted_source.h"

namespace tidemark {
namespace {

using testing::At;

class ClosedStream final : public ClosableStream {
 public:
  void Close(const ClosingOrder& order) override { reasons.push_back(ReasonOf(order.why)); }
  std::vector<std::string> reasons;
};

class StreamRegistryTest : public ::testing::Test {
 protected:
  absl::StatusOr<uint64_t> Add(const std::string& feed, std::shared_ptr<StreamFacts> facts,
                               std::shared_ptr<ClosableStream> stream = nullptr) {
    return registry_.Add(
        {.feed = feed, .label = "a label", .peer = "a peer", .stream = std::move(stream)},
        std::move(facts));
  }
  static ClosingOrder Order() {
    return {ErrorWithReason(absl::StatusCode::kUnavailable, reason::kServerDraining, "stopping"),
            absl::Seconds(1)};
  }

  StreamRegistry registry_{3};
};

TEST_F(StreamRegistryTest, ListsWhatStreamsSayOfThemselves) {
  auto facts = std::make_shared<StreamFacts>();
  const auto id = Add("shop", facts);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(Add("other", std::make_shared<StreamFacts>()).ok());
  facts->AddSent(100, 2);
  facts->AddSent(50, 1);
  facts->SetDelivered(At(7), v1::FEED_STATE_LIVE);
  const auto views = registry_.List("shop");
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].id, *id);
  EXPECT_EQ(views[0].label, "a label");
  EXPECT_EQ(views[0].sent_bytes, 150u);
  EXPECT_EQ(views[0].sent_transactions, 3u);
  EXPECT_EQ(views[0].delivered, At(7));
  EXPECT_EQ(registry_.List("").size(), 2u);
  EXPECT_EQ(registry_.Count("shop"), 1u);
  EXPECT_EQ(registry_.Count(""), 2u);
  registry_.Remove(*id);
  EXPECT_EQ(registry_.Count("shop"), 0u);
}

TEST_F(StreamRegistryTest, KeepsTheLogFromTheLowestNeed) {
  auto one = std::make_shared<StreamFacts>();
  auto two = std::make_shared<StreamFacts>();
  ASSERT_TRUE(Add("shop", one).ok());
  ASSERT_TRUE(Add("shop", two).ok());
  EXPECT_FALSE(registry_.KeepFrom("shop").has_value());
  one->SetKeepFrom(At(9));
  two->SetKeepFrom(At(5));
  EXPECT_EQ(*registry_.KeepFrom("shop"), At(5));
  EXPECT_FALSE(registry_.KeepFrom("other").has_value());
  two->SetKeepFrom(std::nullopt);
  EXPECT_EQ(*registry_.KeepFrom("shop"), At(9));
}

TEST_F(StreamRegistryTest, RefusesMoreThanItsBound) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Add("shop", std::make_shared<StreamFacts>()).ok());
  EXPECT_EQ(ReasonOf(Add("shop", std::make_shared<StreamFacts>()).status()),
            reason::kStreamsExhausted);
}

TEST_F(StreamRegistryTest, DrainClosesAllAndRefusesNew) {
  auto stream = std::make_shared<ClosedStream>();
  const auto id = Add("shop", std::make_shared<StreamFacts>(), stream);
  ASSERT_TRUE(id.ok());
  EXPECT_FALSE(registry_.Close(*id + 1, Order()));
  registry_.Drain(Order());
  EXPECT_EQ(stream->reasons, (std::vector<std::string>{std::string(reason::kServerDraining)}));
  EXPECT_TRUE(registry_.draining());
  EXPECT_EQ(ReasonOf(Add("shop", std::make_shared<StreamFacts>()).status()),
            reason::kServerDraining);
  EXPECT_FALSE(registry_.WaitUntilEmpty(absl::Now()));
  registry_.Remove(*id);
  EXPECT_TRUE(registry_.WaitUntilEmpty(absl::Now()));
}

TEST_F(StreamRegistryTest, AFeedThatIsGoneEndsItsOwnStreamsOnly) {
  auto stream = std::make_shared<ClosedStream>();
  auto other = std::make_shared<ClosedStream>();
  const auto id = Add("shop", std::make_shared<StreamFacts>(), stream);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(Add("other", std::make_shared<StreamFacts>(), other).ok());
  registry_.EndFeed("shop", Order());
  EXPECT_EQ(stream->reasons.size(), 1u);
  EXPECT_TRUE(other->reasons.empty());
  EXPECT_FALSE(Add("shop", std::make_shared<StreamFacts>()).ok());
  EXPECT_FALSE(registry_.draining());
  EXPECT_FALSE(registry_.WaitUntilEmpty(absl::Now(), "shop"));
  registry_.Remove(*id);
  EXPECT_TRUE(registry_.WaitUntilEmpty(absl::Now(), "shop"));
  EXPECT_TRUE(Add("other", std::make_shared<StreamFacts>()).ok());
}

}  // namespace
}  // namespace tidemark
