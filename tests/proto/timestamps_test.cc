#include "proto/timestamps.h"

#include <gtest/gtest.h>

#include <limits>

namespace tidemark {
namespace {

TEST(TimestampsTest, GoThereAndBack) {
  for (const int64_t us : {int64_t{0}, int64_t{1'500'000}, int64_t{-1}, int64_t{-1'500'000}}) {
    const absl::Time time = absl::FromUnixMicros(us);
    EXPECT_EQ(FromTimestamp(ToTimestamp(time)), time) << us;
    EXPECT_EQ(FromDuration(ToDuration(absl::Microseconds(us))), absl::Microseconds(us)) << us;
  }
  // A part of a second counts forward, before 1970 too.
  EXPECT_EQ(ToTimestamp(absl::FromUnixMicros(-1)).seconds(), -1);
  EXPECT_EQ(ToTimestamp(absl::FromUnixMicros(-1)).nanos(), 999'999'000);
}

TEST(TimestampsTest, AnEstimateStaysWithinWhatADurationHolds) {
  EXPECT_EQ(FromDuration(ToEstimate(absl::Seconds(7))), absl::Seconds(7));
  const absl::Duration most = absl::Nanoseconds(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(FromDuration(ToEstimate(absl::InfiniteDuration())), most);
  EXPECT_EQ(FromDuration(ToEstimate(absl::Seconds(1e15))), most);
}

}  // namespace
}  // namespace tidemark
