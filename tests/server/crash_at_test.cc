#include "server/crash_at.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TEST(CrashAt, OnlyAStepWithACountIsAccepted) {
  for (const char* good : {"read:1", "appended:3", "published:1", "synced:20", "confirmed:1"}) {
    EXPECT_TRUE(CrashAt(good).ok()) << good;
  }
  for (const char* bad : {"", "read", "read:", "read:0", "read:-1", "write:1", ":1", "read:1x"}) {
    EXPECT_FALSE(CrashAt(bad).ok()) << bad;
  }
}

TEST(CrashAtDeathTest, TheProcessDiesAtTheStepAndNotBefore) {
  const auto observer = (*CrashAt("synced:2"))("shop");
  EXPECT_TRUE(observer(IngestStep::kSynced).ok());
  EXPECT_TRUE(observer(IngestStep::kConfirmed).ok());
  EXPECT_EXIT(observer(IngestStep::kSynced).IgnoreError(), ::testing::KilledBySignal(SIGKILL), "");
}

}  // namespace
}  // namespace tidemark
