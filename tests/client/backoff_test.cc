#include "client/backoff.h"

#include <gtest/gtest.h>

namespace tidemark::client {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
constexpr double kAlmostOne = 0.999999999;

absl::Duration Rounded(absl::Duration wait) {
  return absl::Trunc(wait + absl::Microseconds(500), absl::Milliseconds(1));
}

TEST(BackoffTest, DoublesUpToTheLongestWait) {
  Backoff backoff({absl::Milliseconds(100), absl::Seconds(1), absl::Seconds(10)});
  for (int expected_ms : {100, 200, 400, 800, 1000, 1000}) {
    backoff.Started(kStart);
    EXPECT_EQ(Rounded(backoff.Failed(kStart, {}, kAlmostOne)), absl::Milliseconds(expected_ms));
  }
}

TEST(BackoffTest, SpreadsBetweenHalfAndAllOfTheWait) {
  for (double random : {0.0, 0.5}) {
    Backoff backoff({absl::Milliseconds(100), absl::Seconds(1), absl::Seconds(10)});
    backoff.Started(kStart);
    EXPECT_EQ(Rounded(backoff.Failed(kStart, {}, random)),
              absl::Milliseconds(50) + absl::Milliseconds(50) * random);
  }
}

TEST(BackoffTest, BeginsAnewAfterSuccessOrALongLife) {
  Backoff backoff({absl::Milliseconds(100), absl::Seconds(1), absl::Seconds(10)});
  backoff.Started(kStart);
  backoff.Failed(kStart, {}, 0);
  backoff.Failed(kStart, {}, 0);
  backoff.Succeeded();
  EXPECT_EQ(backoff.Failed(kStart, {}, 0), absl::Milliseconds(50));
  EXPECT_EQ(backoff.Failed(kStart + absl::Seconds(9), {}, 0), absl::Milliseconds(100));
  EXPECT_EQ(backoff.Failed(kStart + absl::Seconds(10), {}, 0), absl::Milliseconds(50));
}

TEST(BackoffTest, NeverComesBackBeforeTheServerAskedFor) {
  Backoff backoff({absl::Milliseconds(100), absl::Seconds(1), absl::Seconds(10)});
  backoff.Started(kStart);
  EXPECT_EQ(backoff.Failed(kStart, absl::Seconds(8), 0), absl::Seconds(8));
  EXPECT_EQ(backoff.Failed(kStart, absl::Seconds(8), 0.5), absl::Seconds(9));
}

}  // namespace
}  // namespace tidemark::client
