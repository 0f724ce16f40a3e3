#include "capture/postgres/chunk_window.h"

#include <gtest/gtest.h>

#include <string>

namespace tidemark::capture::postgres {
namespace {

XidSnapshot Snapshot(const std::string& text) { return *XidSnapshot::Parse(text); }

TEST(ChunkWindowTest, RemembersOnlyWhatIsTouchedWhileOpen) {  // proves H4, A48
  ChunkWindow window;
  window.Touch("before");
  window.Open();
  window.Touch("in");
  EXPECT_FALSE(window.Touched("before"));
  EXPECT_TRUE(window.Touched("in"));
  EXPECT_TRUE(window.Holds(Snapshot("10:10:")));
  window.Close();
  window.Open();
  EXPECT_FALSE(window.Touched("in"));
}

TEST(ChunkWindowTest, ATruncateOrAnotherSchemaSpoilsIt) {
  ChunkWindow window;
  window.Spoil();
  window.Open();
  EXPECT_TRUE(window.Holds(Snapshot("10:10:")));
  window.Spoil();
  EXPECT_FALSE(window.Holds(Snapshot("10:10:")));
  window.Open();
  EXPECT_TRUE(window.Holds(Snapshot("10:10:")));
}

// A commit is streamed when it is in the log; others see it a little later.
TEST(ChunkWindowTest, ASnapshotWithoutAStreamedCommitDoesNotCount) {
  ChunkWindow window;
  window.Committed(7);
  window.Committed(9);
  window.Open();
  window.Committed(12);
  EXPECT_FALSE(window.Holds(Snapshot("7:10:7"))) << "7 was streamed before, and is not seen";
  EXPECT_FALSE(window.Holds(Snapshot("7:9:7"))) << "nor is 9";
  window.Open();
  EXPECT_FALSE(window.Holds(Snapshot("7:12:7")));
  EXPECT_TRUE(window.Holds(Snapshot("11:13:11"))) << "all of them are seen";
  window.Open();
  window.Committed(20);
  EXPECT_TRUE(window.Holds(Snapshot("15:15:"))) << "20 came while it was open: its keys are known";
  window.Open();
  EXPECT_FALSE(window.Holds(Snapshot("15:15:"))) << "now it came before";
}

TEST(ChunkWindowTest, IsBounded) {
  ChunkWindow window;
  window.Open();
  for (size_t i = 0; i <= kTouchedKeysMax; ++i) window.Touch(std::to_string(i));
  EXPECT_FALSE(window.Holds(Snapshot("10:10:")));
  window.Open();
  for (size_t i = 0; i < 2 * kRecentCommitsMax; ++i) {
    window.Committed(static_cast<uint32_t>(i) + 100);
  }
  EXPECT_TRUE(window.Holds(Snapshot("50:50:")));
}

}  // namespace
}  // namespace tidemark::capture::postgres
