#include "capture/postgres/proof_probe.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

absl::Time At(int64_t ms) { return absl::FromUnixMillis(1'000'000 + ms); }

// proves S45, K5
TEST(ProofProbeTest, AsksAtOnceAndThenEverMoreRarely) {
  ProofProbe probe;
  EXPECT_EQ(probe.NextDue(100), absl::InfiniteFuture()) << "nobody waits";
  probe.Want(200);
  EXPECT_EQ(probe.NextDue(100), absl::InfinitePast());
  absl::Time now = At(0);
  int asked = 0;
  while (now < At(10'000)) {
    probe.Asked(now);
    ++asked;
    now = probe.NextDue(100);
  }
  EXPECT_LE(asked, 17) << "in ten seconds";
  EXPECT_GE(asked, 10);
  EXPECT_EQ(probe.NextDue(200), absl::InfiniteFuture()) << "it is proved";
}

TEST(ProofProbeTest, WhoeverComesAnewIsNotMadeToWait) {
  ProofProbe probe;
  probe.Want(200);
  for (int i = 0; i < 10; ++i) probe.Asked(At(i));
  EXPECT_GT(probe.NextDue(100), At(500));
  probe.Want(200);
  EXPECT_GT(probe.NextDue(100), At(500)) << "the same wish again is none";
  probe.Want(150);
  EXPECT_EQ(probe.NextDue(100), absl::InfinitePast());
  probe.Want(std::nullopt);
  EXPECT_EQ(probe.NextDue(100), absl::InfiniteFuture());
}

TEST(ProofProbeTest, WhatWasWaitedForIsHandedOverAtOnce) {
  ProofProbe probe;
  EXPECT_FALSE(probe.HasNews(300, 100));
  probe.Want(200);
  EXPECT_FALSE(probe.HasNews(199, 100));
  EXPECT_TRUE(probe.HasNews(200, 199));
  EXPECT_FALSE(probe.HasNews(300, 200)) << "handed over already";
}

}  // namespace
}  // namespace tidemark::capture::postgres
