#include "server/error_status.h"

#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/reason.h"

namespace tidemark {
namespace {

google::rpc::ErrorInfo InfoOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), status.error_code());
  EXPECT_EQ(details.message(), status.error_message());
  EXPECT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  EXPECT_TRUE(details.details(0).UnpackTo(&info));
  return info;
}

TEST(ErrorStatus, OkStaysOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(ErrorStatus, ReasonAndDetailsArriveAsErrorInfo) {
  const grpc::Status status =
      ToGrpcStatus(ErrorWithReason(absl::StatusCode::kOutOfRange, reason::kCursorExpired, "too old",
                                   {{"floor_cursor", "abc"}, {"missing_from", "1"}}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(status.error_message(), "too old");
  const auto info = InfoOf(status);
  EXPECT_EQ(info.reason(), "CURSOR_EXPIRED");
  EXPECT_EQ(info.domain(), "tidemark");
  EXPECT_EQ(info.metadata().at("floor_cursor"), "abc");
  EXPECT_EQ(info.metadata().size(), 2u);
}

TEST(ErrorStatus, WithoutAReasonItIsABugOfOurs) {
  const grpc::Status status = ToGrpcStatus(absl::NotFoundError("what"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "what");
}

TEST(ErrorStatus, LongTextsAreCutAtACharacterSoThatTheTrailersFit) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "\xC3\xA4";
  ErrorDetails many;
  for (int i = 0; i < 100; ++i) many["key" + std::to_string(i)] = text;
  const grpc::Status status = ToGrpcStatus(
      ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kRequestInvalid, text, many));
  // Clients bound the headers of a call to 8 KiB; text is percent-encoded, details are base64.
  EXPECT_LT(3 * status.error_message().size() + status.error_details().size() * 4 / 3, 8'000u);
  const auto info = InfoOf(status);
  EXPECT_EQ(info.reason(), "REQUEST_INVALID");
  EXPECT_FALSE(info.metadata().empty());
}

TEST(ErrorStatus, UnsupportedNamesTheFeature) {
  const grpc::Status status = Unsupported("FeedAdmin.Drain");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(InfoOf(status).reason(), "FEATURE_UNSUPPORTED");
  EXPECT_EQ(InfoOf(status).metadata().at("feature"), "FeedAdmin.Drain");
}

}  // namespace
}  // namespace tidemark
