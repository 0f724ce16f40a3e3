// What survives kill -9, a loss of power, a full disk and a failing one.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "proto/reason.h"
#include "tests/store/store_fixture.h"
#include "tests/testing/crash_file_system.h"
#include "tests/testing/sanitized.h"
#include "tests/testing/seed.h"
#include "tests/testing/wait_until.h"

namespace tidemark::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class CrashTest : public StoreFixture {
 protected:
  CrashTest() : disk_(scratch_ / "links") { options_.env = disk_.env(); }
  ~CrashTest() override { Close(); }

  void LosePowerAndReopen(uint64_t seed = 0) {
    disk_.LosePower();
    Close();
    disk_.PowerOn(seed);
    Open();
  }

  testing::CrashFileSystem disk_;
};

// proves R05, B001: kill -9 loses nothing that was appended.
TEST_F(CrashTest, WhatWasAppendedSurvivesAKill) {
  options_.env = nullptr;
  OpenWithLog();
  Append({Inserts(110, {1}), Inserts(120, {2, 3}, 1)});
  ASSERT_TRUE(feed_->SpoolParts(1, {schema_}, {Run(0, {Delete(1)})}).ok());
  AppendBatch batch;
  batch.spooled = {{1, At(130), {}}};
  batch.checkpoint = CheckpointAt(135);
  ASSERT_TRUE(feed_->Append(batch).ok());
  const auto log = ReadLog(100);
  // What a process leaves that is killed now, is what the folder holds now.
  fs::copy(options_.path, scratch_ / "killed", fs::copy_options::recursive);
  Close();
  options_.path = scratch_ / "killed";
  Open();
  EXPECT_EQ(ReadLog(100), log);
  EXPECT_EQ(feed_->checkpoint().position(), CheckpointAt(135).position());
  EXPECT_EQ(feed_->head(), At(135));
}

// proves R06: the synced boundary never passes what a disk keeps.
TEST_F(CrashTest, WhatWasSyncedSurvivesALossOfPower) {
  OpenWithLog();
  Append({Inserts(110, {1}), Inserts(120, {2})});
  Sync();
  EXPECT_EQ(feed_->synced(), At(120));
  Append({Inserts(130, {3})});
  LosePowerAndReopen();
  EXPECT_THAT(Positions(100), ElementsAre(110, 120));
  EXPECT_EQ(feed_->checkpoint().position(), CheckpointAt(120).position());
  EXPECT_EQ(feed_->head(), At(120));
  // Captured again, it is as before.
  Append({Inserts(130, {3})});
  EXPECT_THAT(Positions(100), ElementsAre(110, 120, 130));
}

TEST_F(CrashTest, ASnapshotThatWasNotWholeStartsAgain) {
  Open();
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  ASSERT_TRUE(feed_->AddSnapshotRows({schema_}, {Run(0, {Insert(1, {TextValue("a")})})}).ok());
  LosePowerAndReopen();
  EXPECT_FALSE(feed_->snapshot_whole());
  EXPECT_THAT(ReadRows(), ElementsAre(reason::kFeedNotReady));
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  ASSERT_TRUE(feed_->AddSnapshotRows({schema_}, {Run(0, {Insert(2, {TextValue("b")})})}).ok());
  AppendBatch whole;
  whole.snapshot_whole = At(100);
  whole.checkpoint = CheckpointAt(100);
  ASSERT_TRUE(feed_->Append(whole).ok());
  Sync();
  LosePowerAndReopen();
  EXPECT_TRUE(feed_->snapshot_whole());
  EXPECT_THAT(ReadRows(), ElementsAre("at 100", "2@100"));
}

TEST_F(CrashTest, AFailedSyncDoesNotCount) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  disk_.FailWhen([](testing::DiskOperation operation, const std::string&) {
    return operation == testing::DiskOperation::kSync;
  });
  const absl::Status failed = feed_->Sync();
  EXPECT_EQ(ReasonOf(failed), reason::kStoreIo) << failed;
  EXPECT_EQ(feed_->synced(), At(100));
  // After a failed fsync nobody knows what the disk holds: a second one that succeeds proves
  // nothing.
  disk_.FailWhen(nullptr);
  EXPECT_EQ(ReasonOf(feed_->Sync()), reason::kStoreIo);
  EXPECT_EQ(ReasonOf(TryAppend({Inserts(120, {2})})), reason::kStoreIo);
  EXPECT_EQ(feed_->synced(), At(100));
  Open();
  Append({Inserts(120, {2})});
  Sync();
  LosePowerAndReopen();
  EXPECT_THAT(Positions(100), ElementsAre(110, 120));
}

TEST_F(CrashTest, AFullDiskIsSaidAndGoneOnFrom) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  disk_.SetSpaceLeft(200'000);
  uint64_t position = 110;
  absl::Status status;
  while (status.ok() && position < 1000) {
    ++position;
    status = TryAppend({Large(position, 50'000)});
  }
  EXPECT_EQ(ReasonOf(status), reason::kStoreFull) << status;
  EXPECT_EQ(ReasonOf(TryAppend({Large(position, 50'000)})), reason::kStoreFull);
  const uint64_t last = position - 1;
  EXPECT_EQ(feed_->head(), At(last));
  EXPECT_EQ(Positions(100).back(), last);
  disk_.SetSpaceLeft(std::nullopt);
  EXPECT_TRUE(testing::WaitUntil(
      [&] {
        status = TryAppend({Large(position, 50'000)});
        return status.ok();
      },
      std::chrono::seconds(30), [&] { return std::string(status.message()); }));
  Sync();
  LosePowerAndReopen();
  EXPECT_EQ(Positions(100).size(), position - 109);
  EXPECT_EQ(feed_->checkpoint().position(), CheckpointAt(position).position());
}

// A model beside the store through random work, with the power lost in the middle of it.
class PowerLossTest : public CrashTest {
 protected:
  // What was given to Append, in order; the store may hold any prefix that is long enough.
  struct Model {
    std::vector<uint64_t> appended;
    uint64_t synced = kSnapshotAt;
  };

  // One step of work; false when the disk stopped.
  bool Step(std::mt19937_64& random, uint64_t* position, Model* model) {
    const auto chance = [&](uint64_t of) { return random() % of == 0; };
    if (chance(4)) {
      if (!feed_->Sync().ok()) return false;
      model->synced = *position;
      return true;
    }
    if (chance(5)) return feed_->FoldOnce().ok();
    if (chance(15)) {
      RetentionBounds bounds;
      if (chance(2)) bounds = {absl::InfiniteDuration(), 30'000};
      return feed_->Trim(bounds, absl::Now(), std::nullopt).ok();
    }
    if (chance(15)) {
      return feed_->SpoolParts(random(), {schema_}, {Run(0, {Delete(1)})}).ok();
    }
    AppendBatch batch;
    for (uint64_t i = random() % 4; i > 0; --i) {
      ++*position;
      if (chance(4)) {
        const uint64_t handle = *position;
        if (!feed_
                 ->SpoolParts(handle, {schema_},
                              {Run(0, {Insert(RowOf(*position), {TextValue("spooled")})})})
                 .ok()) {
          return false;
        }
        batch.spooled.push_back({handle, At(*position), {}});
      } else {
        batch.transactions.push_back(Inserts(*position, {RowOf(*position)}));
        // Sizes that make RocksDB change its files.
        if (chance(3)) batch.transactions.back().runs.push_back(Padding(*position));
      }
      model->appended.push_back(*position);
    }
    batch.checkpoint = CheckpointAt(*position);
    return feed_->Append(batch).ok();
  }

  static int64_t RowOf(uint64_t position) { return static_cast<int64_t>(position % 10); }

  EncodedRun Padding(uint64_t position) const {
    EncodedRun run = Large(position, 5000).runs[0];
    run.first_sequence = 1;
    return run;
  }

  void ExpectConsistent(const Model& model) {
    const uint64_t head = feed_->head().engine_low();
    ASSERT_GE(head, model.synced) << "something that was synced is lost";
    const uint64_t floor = feed_->floor().engine_low();
    std::vector<uint64_t> expected;
    for (const uint64_t position : model.appended) {
      if (position > floor && position <= head) expected.push_back(position);
    }
    ASSERT_EQ(Positions(floor), expected);
    ASSERT_EQ(feed_->checkpoint().position(), CheckpointAt(head).position())
        << "the checkpoint does not belong to the log";
    ExpectRowsAreTheFold(model);
    Fold();
    ExpectRowsAreTheFold(model);
  }

  // Every transaction inserts one row, so the last one of each key wrote it.
  void ExpectRowsAreTheFold(const Model& model) {
    const uint64_t folded = feed_->folded().engine_low();
    std::map<int64_t, uint64_t> last;
    for (const uint64_t position : model.appended) {
      if (position <= folded) last[RowOf(position)] = position;
    }
    std::vector<std::string> rows = ReadRows();
    ASSERT_FALSE(rows.empty());
    rows.erase(rows.begin());
    std::vector<std::string> seen;
    for (const std::string& row : rows) {
      // The rows of paddings have their position as key, far above RowOf.
      if (std::strtoll(row.c_str(), nullptr, 10) < 10) seen.push_back(row);
    }
    std::vector<std::string> expected;
    for (const auto& [id, position] : last) expected.push_back(fmt::format("{}@{}", id, position));
    ASSERT_EQ(seen, expected);
  }
};

// proves R05, R06, B001
TEST_F(PowerLossTest, AtAnyMomentLeavesAConsistentPrefix) {
  const uint64_t base = testing::SeedFromEnvironment();
  constexpr uint64_t kRounds = testing::kSanitized ? 10 : 25;
  OpenWithLog();
  Model model;
  uint64_t position = kSnapshotAt;
  for (uint64_t seed = base; seed < base + kRounds; ++seed) {
    SCOPED_TRACE(fmt::format("TIDEMARK_SEED={}", seed));
    std::mt19937_64 random(seed);
    std::atomic<int64_t> operations_left = static_cast<int64_t>(random() % 400);
    disk_.FailWhen([&](testing::DiskOperation operation, const std::string&) {
      return operation != testing::DiskOperation::kRead && --operations_left < 0;
    });
    for (int step = 0; step < 400 && Step(random, &position, &model); ++step) {
    }
    disk_.LosePower();
    Close();
    disk_.PowerOn(seed);
    disk_.FailWhen(nullptr);
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(ExpectConsistent(model));
    position = feed_->head().engine_low();
    model.synced = position;
    std::erase_if(model.appended, [&](uint64_t p) { return p > position; });
  }
}

}  // namespace
}  // namespace tidemark::store
