#include "capture/postgres/chunk_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kSchema = 7;

XidSnapshot Snapshot(const std::string& text) { return *XidSnapshot::Parse(text); }

TEST(ChunkWindowTest, RemembersOnlyWhatIsTouchedWhileOpen) {  // proves H4, A48
  ChunkWindow window;
  window.Touch("before");
  window.Open();
  window.Touch("in");
  EXPECT_EQ(window.Find("before"), nullptr);
  EXPECT_NE(window.Find("in"), nullptr);
  EXPECT_TRUE(window.Holds(Snapshot("10:10:")));
  window.Close();
  window.Open();
  EXPECT_EQ(window.Find("in"), nullptr);
}

class ValuesLeftOutTest : public ::testing::Test {
 protected:
  ValuesLeftOutTest() { window_.Open(); }
  void LeaveOut(const std::vector<uint32_t>& columns, uint64_t schema_id = kSchema) {
    window_.TouchLeavingOut("k", schema_id, columns);
  }
  std::vector<uint32_t> LeftOut() const { return window_.Find("k")->left_out; }

  ChunkWindow window_;
};

TEST_F(ValuesLeftOutTest, AreThoseThatNoChangeTold) {  // proves H4, B001
  LeaveOut({2, 4, 5});
  EXPECT_THAT(LeftOut(), ElementsAre(2, 4, 5));
  LeaveOut({1, 2, 5});
  EXPECT_THAT(LeftOut(), ElementsAre(2, 5)) << "the second one told 4, and the first one told 1";
  EXPECT_EQ(window_.Find("k")->schema_id, kSchema);
  EXPECT_EQ(window_.Find("other"), nullptr);
  EXPECT_TRUE(window_.Holds(Snapshot("10:10:")));
}

TEST_F(ValuesLeftOutTest, AreNoneOnceTheRowWasToldOrIsGone) {  // proves H4
  LeaveOut({2});
  window_.Touch("k");
  EXPECT_THAT(LeftOut(), IsEmpty());
  LeaveOut({2});
  EXPECT_THAT(LeftOut(), IsEmpty()) << "what it leaves out is what was told";
}

TEST_F(ValuesLeftOutTest, AreOfOneSchemaOrOfNone) {
  LeaveOut({2});
  LeaveOut({2}, kSchema + 1);
  EXPECT_EQ(window_.Find("k")->schema_id, 0u);
  LeaveOut({2});
  EXPECT_EQ(window_.Find("k")->schema_id, 0u);
  EXPECT_THAT(LeftOut(), ElementsAre(2));
}

TEST_F(ValuesLeftOutTest, AreForgottenWithTheWindow) {
  LeaveOut({2});
  window_.Close();
  LeaveOut({2});
  EXPECT_EQ(window_.Find("k"), nullptr);
  window_.Open();
  EXPECT_EQ(window_.Find("k"), nullptr);
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
  const std::vector<uint32_t> column = {1};
  for (size_t i = 0; i <= kTouchedKeysMax; ++i) {
    window.TouchLeavingOut(std::to_string(i), kSchema, column);
  }
  EXPECT_FALSE(window.Holds(Snapshot("10:10:")));
  window.Open();
  for (size_t i = 0; i < 2 * kRecentCommitsMax; ++i) {
    window.Committed(static_cast<uint32_t>(i) + 100);
  }
  EXPECT_TRUE(window.Holds(Snapshot("50:50:")));
}

}  // namespace
}  // namespace tidemark::capture::postgres
