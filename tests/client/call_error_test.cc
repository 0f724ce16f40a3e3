#include "client/call_error.h"

#include <gtest/gtest.h>

#include "client/reason.h"
#include "proto/reason.h"
#include "tests/client/scripted_server.h"

namespace tidemark::client {
namespace {

TEST(CallErrorTest, KeepsReasonAndDetails) {
  const absl::Status error =
      FromGrpcStatus(StatusWithReason(grpc::StatusCode::OUT_OF_RANGE, "CURSOR_EXPIRED"));
  EXPECT_EQ(error.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(error.message(), "what was found");
  EXPECT_EQ(ReasonOf(error), "CURSOR_EXPIRED");
  EXPECT_EQ(DetailsOf(error), (ErrorDetails{{"feed", "main"}}));
}

TEST(CallErrorTest, NamesAnErrorThatIsNoneOfTheServer) {
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
  EXPECT_EQ(ReasonOf(FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "refused"))),
            reason::kServerUnreachable);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "late"))),
            reason::kServerUnreachable);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(grpc::Status(grpc::StatusCode::INTERNAL, "reset", "junk"))),
            "");
}

// A client that takes nothing is told why in the message alone.
TEST(CallErrorTest, KnowsThatItStalled) {
  const absl::Status error =
      FromGrpcStatus(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "CLIENT_STALLED: 30m"));
  EXPECT_EQ(ReasonOf(error), "CLIENT_STALLED");
  EXPECT_TRUE(IsRetried(error));
}

TEST(CallErrorTest, RetriesByReasonThenByCode) {
  using grpc::StatusCode;
  const auto retried = [](StatusCode code, const std::string& reason) {
    return IsRetried(
        FromGrpcStatus(reason.empty() ? grpc::Status(code, "x") : StatusWithReason(code, reason)));
  };
  EXPECT_TRUE(retried(StatusCode::UNAVAILABLE, "FEED_NOT_READY"));
  EXPECT_TRUE(retried(StatusCode::UNAVAILABLE, "SERVER_DRAINING"));
  EXPECT_TRUE(retried(StatusCode::UNAVAILABLE, "CURSOR_AHEAD"));
  EXPECT_TRUE(retried(StatusCode::RESOURCE_EXHAUSTED, "STREAMS_EXHAUSTED"));
  EXPECT_TRUE(retried(StatusCode::ABORTED, "FEED_RESTARTED"));
  EXPECT_TRUE(retried(StatusCode::UNAVAILABLE, "REASON_OF_A_NEWER_SERVER"));
  EXPECT_TRUE(retried(StatusCode::UNAVAILABLE, ""));
  EXPECT_TRUE(retried(StatusCode::INTERNAL, ""));
  EXPECT_FALSE(retried(StatusCode::RESOURCE_EXHAUSTED, ""));
  EXPECT_FALSE(retried(StatusCode::OUT_OF_RANGE, "CURSOR_EXPIRED"));
  EXPECT_FALSE(retried(StatusCode::INVALID_ARGUMENT, "CURSOR_FORGED"));
  EXPECT_FALSE(retried(StatusCode::FAILED_PRECONDITION, "CURSOR_DIVERGED"));
  EXPECT_FALSE(retried(StatusCode::NOT_FOUND, "FEED_UNKNOWN"));
  EXPECT_FALSE(retried(StatusCode::UNIMPLEMENTED, "FEATURE_UNSUPPORTED"));
}

}  // namespace
}  // namespace tidemark::client
