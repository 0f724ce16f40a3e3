// The call StopAt as a client makes it, over gRPC.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/reason.h"
#include "tests/server/two_feeds.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using testing::ScriptedSource;
using testing::WaitUntil;
using namespace std::chrono_literals;

std::string ReasonIn(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details_size() != 1) return "";
  return details.details(0).UnpackTo(&info) ? info.reason() : "";
}

class StopAtCallTest : public testing::TwoFeeds {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server_.Start().ok());
    source().Yield(testing::SnapshotBegins());
    source().Yield(testing::SnapshotEnds(10));
    ASSERT_TRUE(WaitForEvent("confirm 10"));
  }

  ScriptedSource& source() { return *sources_["one"]; }
  ::testing::AssertionResult WaitForEvent(const std::string& event) {
    return WaitUntil([&] { return source().CountOf(event) > 0; }, 20s,
                     [&] { return server_.Log(); });
  }
  std::string Latest() {
    grpc::ClientContext context;
    v1::ResolveCursorRequest request;
    request.set_feed("one");
    request.mutable_latest();
    v1::ResolveCursorResponse response;
    const auto status = server_.feed_stub()->ResolveCursor(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.cursor();
  }
  grpc::Status StopAt(const v1::Until& until) {
    grpc::ClientContext context;
    v1::StopAtRequest request;
    request.set_feed("one");
    *request.mutable_until() = until;
    v1::StopAtResponse response;
    return server_.admin_stub()->StopAt(&context, request, &response);
  }
  // The source's log broke off, and the feed goes on behind `number` in generation 2.
  void GoOnInGeneration2(uint64_t number) {
    source().Fail(ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSlotLost,
                                  "as the test wants it"));
    ASSERT_TRUE(WaitForEvent("close"));
    capture::CaptureBatch healed = testing::IdleBatch(number);
    healed.checkpoint->set_position(std::string(Position::Of(2, number).bytes()));
    v1::GapRecord& gap = healed.gap.emplace();
    gap.set_to(healed.checkpoint->position());
    gap.set_reason("SLOT_LOST");
    gap.set_detail("as the test wants it");
    gap.set_policy(v1::RECOVERY_POLICY_RESNAPSHOT);
    healed.made = true;
    source().Yield(healed);
    // The order is refused until the loop has seen the break.
    ASSERT_TRUE(WaitUntil([&] { return Recover().ok(); }, 20s, [&] { return server_.Log(); }));
    ASSERT_TRUE(WaitForEvent("confirm " + std::to_string(number)));
  }

 private:
  grpc::Status Recover() {
    grpc::ClientContext context;
    v1::RecoverRequest request;
    request.set_feed("one");
    request.set_policy(v1::RECOVERY_POLICY_RESNAPSHOT);
    v1::RecoverResponse response;
    return server_.admin_stub()->Recover(&context, request, &response);
  }
};

// proves S03: its number lies ahead in the generation that goes on, and is not taken for that place
TEST_F(StopAtCallTest, ACursorOfAnEarlierGenerationNamesAPlaceThatWasPassed) {
  v1::Until until;
  until.set_cursor(Latest());
  GoOnInGeneration2(5);
  EXPECT_EQ(ReasonIn(StopAt(until)), "BOUND_BEFORE_START");
  EXPECT_EQ(source().stop(), capture::StopPoint());
  // Without a generation, the same number is a place of the one that goes on.
  until.set_native_position("10");
  const grpc::Status taken = StopAt(until);
  EXPECT_TRUE(taken.ok()) << taken.error_message();
  EXPECT_EQ(source().stop().bound, Position::Of(2, 10));
}

TEST_F(StopAtCallTest, ACursorOfThisGenerationEndsThere) {
  source().Yield(testing::TransactionBatch(20, {1}));
  ASSERT_TRUE(WaitForEvent("confirm 20"));
  v1::Until until;
  until.set_cursor(Latest());
  const grpc::Status taken = StopAt(until);
  EXPECT_TRUE(taken.ok()) << taken.error_message();
  EXPECT_EQ(source().stop().bound, testing::At(20));
}

}  // namespace
}  // namespace tidemark
