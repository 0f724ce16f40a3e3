#include "capture/postgres/silence.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);
const absl::Time kStart = absl::FromUnixSeconds(1000);

absl::Time After(int seconds) { return kStart + absl::Seconds(seconds); }

TEST(SilenceTest, AsksThreeTimesThenGivesUp) {  // proves S56
  Silence silence(kTimeout, kStart);
  EXPECT_EQ(silence.ask_due(), After(10));
  EXPECT_EQ(silence.give_up_due(), absl::InfiniteFuture()) << "not asked yet";
  silence.Asked(After(10));
  EXPECT_EQ(silence.ask_due(), After(20));
  EXPECT_EQ(silence.give_up_due(), After(30));
  silence.Asked(After(20));
  EXPECT_EQ(silence.give_up_due(), After(30));
  EXPECT_EQ(silence.Lasted(After(30)), kTimeout);
}

TEST(SilenceTest, EverySignOfLifeBeginsAnew) {
  Silence silence(kTimeout, kStart);
  silence.Asked(After(20));
  silence.Heard(After(29));
  EXPECT_EQ(silence.ask_due(), After(39));
  EXPECT_EQ(silence.give_up_due(), absl::InfiniteFuture());
  EXPECT_EQ(silence.Lasted(After(30)), absl::Seconds(1));
}

// The store was busy, or this process was stopped: nothing is known of the server.
TEST(SilenceTest, NobodyIsGivenUpUnasked) {
  Silence busy(kTimeout, kStart);
  busy.Asked(After(10));
  busy.NotListened(absl::Seconds(100));
  EXPECT_EQ(busy.ask_due(), After(110));
  EXPECT_EQ(busy.give_up_due(), absl::InfiniteFuture());

  Silence stopped(kTimeout, kStart);
  EXPECT_LE(stopped.ask_due(), After(60));
  stopped.Asked(After(60));
  EXPECT_EQ(stopped.give_up_due(), After(70)) << "time to answer";
}

}  // namespace
}  // namespace tidemark::capture::postgres
