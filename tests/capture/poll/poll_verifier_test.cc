// How much of a verification is done at a time, and held, where many rows wait for a later poll.
#include "capture/poll/poll_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/capture/poll/remembered_rows.h"
#include "tests/capture/poll/scripted_engine.h"
#include "tests/testing/sanitized.h"

namespace tidemark::capture::poll {
namespace {

// A table of rows 0, 1, … that were all written a moment ago.
class BulkLoad final : public ScriptedEngine {
 public:
  absl::StatusOr<RowPage> ReadPage(size_t, const PageOrder& order) override {
    RowPage page;
    if (order.part == PageOrder::Part::kByKey) {
      const int64_t from = order.after.key.empty() ? 0 : std::stoll(order.after.key[0]) + 1;
      const int64_t to = std::min<int64_t>(rows, from + order.rows_max);
      for (int64_t id = from; id < to; ++id) page.rows.push_back(Written(id));
      page.at_end = to == rows;
    } else {
      if (std::exchange(gives_up, false)) return absl::AbortedError("conflict with recovery");
      for (const auto& key : order.keys) page.rows.push_back(Written(std::stoll(key[0])));
      page.at_end = true;
    }
    return page;
  }

  int64_t rows = 0;
  bool all_wait = true;
  // The next page of keys is not read.
  bool gives_up = false;

 private:
  PolledRow Written(int64_t id) const {
    PolledRow row = ScriptedRow(id, "10");
    row.waits = all_wait;
    return row;
  }
};

class CountedFindings final : public VerificationSink {
 public:
  bool Wanted() const override { return true; }
  bool HasRoom() override {
    at_once = 0;
    return true;
  }
  void Put(v1::VerifyResponse finding) override {
    most_at_once = std::max(most_at_once, ++at_once);
    if (finding.last()) totals = finding.totals();
  }
  void End(const absl::Status& status) override { ended = status; }

  size_t at_once = 0;
  size_t most_at_once = 0;
  v1::VerifyTotals totals;
  absl::Status ended = absl::UnknownError("it goes on");
};

class PollVerifierTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = kRowsWaitingMax + 1;

  PollVerifierTest() {
    engine_.rows = kRows;
    settings_.tables.push_back({.schema = "public", .table = "t", .cursor = "at"});
    verifier_.Begin({.tables = {}, .sink = sink_});
  }
  // Everything that can be compared under the snapshot of this poll; how many rows were read.
  size_t Poll(uint64_t poll) {
    size_t rows = 0;
    while (verifier_.Next(poll)) {
      const auto step = verifier_.Step(ScriptedSchema(), poll, Position());
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok()) break;
      EXPECT_LE(*step, kVerifyRowsMax);
      rows += *step;
    }
    return rows;
  }

  PollSettings settings_;
  BulkLoad engine_;
  RememberedRows rows_;
  RowComparison comparison_{&rows_};
  std::shared_ptr<CountedFindings> sink_ = std::make_shared<CountedFindings>();
  PollVerifier verifier_{&settings_, &engine_, &comparison_};
};

TEST_F(PollVerifierTest, OfABulkLoadOnlySoManyRowsAreHeldAndTheRestIsReadLater) {
  EXPECT_EQ(Poll(1), kRowsWaitingMax) << "each of them waits";
  engine_.all_wait = false;
  // No poll told them in between, so that each is missing.
  Poll(2);
  EXPECT_TRUE(sink_->ended.ok()) << sink_->ended;
  EXPECT_EQ(sink_->totals.missing(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(sink_->totals.rows_compared(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(sink_->totals.not_comparable(), 0u);
  EXPECT_LE(sink_->most_at_once, kFindingsAtOnceMax);
}

// The order outlives the poll that is begun again.
TEST_F(PollVerifierTest, RowsThatWaitedAreNotForgottenWhenTheSourceGivesTheSnapshotUp) {
  EXPECT_EQ(Poll(1), kRowsWaitingMax);
  engine_.all_wait = false;
  engine_.gives_up = true;
  ASSERT_TRUE(verifier_.Next(2));
  EXPECT_TRUE(absl::IsAborted(verifier_.Step(ScriptedSchema(), 2, Position()).status()));
  Poll(2);
  EXPECT_TRUE(sink_->ended.ok()) << sink_->ended;
  EXPECT_EQ(sink_->totals.missing(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(sink_->totals.rows_compared(), static_cast<uint64_t>(kRows));
}

TEST_F(PollVerifierTest, RowsThatWaitInEachPollAreCountedAsNotComparable) {
  // Each chunk makes room for another one only once all of its rows were given up.
  if (testing::kSanitized) engine_.rows = 2 * kVerifyRowsMax;
  const uint64_t polls_max = 2 * kLooksMax;
  for (uint64_t poll = 1; poll <= polls_max && verifier_.active(); ++poll) {
    EXPECT_LE(Poll(poll), 2 * kRowsWaitingMax);
  }
  EXPECT_TRUE(sink_->ended.ok()) << sink_->ended;
  EXPECT_EQ(sink_->totals.not_comparable(), static_cast<uint64_t>(engine_.rows));
  EXPECT_EQ(sink_->totals.rows_compared(), 0u);
}

}  // namespace
}  // namespace tidemark::capture::poll
