#include "capture/postgres/wal_rate.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST(WalRateTest, TellsHowLongWhatIsLeftLasts) {  // proves R57
  WalRate rate;
  EXPECT_EQ(rate.TimeFor(100), std::nullopt);
  rate.Look(1000, kStart);
  EXPECT_EQ(rate.TimeFor(100), std::nullopt) << "one look tells no rate";
  rate.Look(1500, kStart + absl::Seconds(5));
  EXPECT_EQ(rate.TimeFor(1000), absl::Seconds(10));
  EXPECT_EQ(rate.TimeFor(0), absl::ZeroDuration());
}

TEST(WalRateTest, AnIdleServerKeepsItForEver) {
  WalRate rate;
  rate.Look(1000, kStart);
  rate.Look(1000, kStart + absl::Seconds(5));
  EXPECT_EQ(rate.TimeFor(1000), std::nullopt);
}

TEST(WalRateTest, OldGrowthIsForgotten) {
  WalRate rate;
  rate.Look(0, kStart);
  rate.Look(1'000'000, kStart + absl::Seconds(5));
  for (int i = 2; i < 40; ++i) rate.Look(1'000'000 + i, kStart + absl::Seconds(5 * i));
  EXPECT_GT(*rate.TimeFor(1000), absl::Seconds(4000));
}

TEST(WalRateTest, AnotherHistoryBeginsAnew) {
  WalRate rate;
  rate.Look(5000, kStart);
  rate.Look(6000, kStart + absl::Seconds(5));
  rate.Look(100, kStart + absl::Seconds(10));
  EXPECT_EQ(rate.TimeFor(1000), std::nullopt);
}

}  // namespace
}  // namespace tidemark::capture::postgres
