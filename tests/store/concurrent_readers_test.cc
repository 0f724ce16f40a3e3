// One writer, one retention, one fold and many readers at a time. Run under the thread sanitizer.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "proto/reason.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

class ConcurrentReadersTest : public StoreFixture {
 protected:
  static constexpr uint64_t kTransactions = 2000;
  static constexpr uint64_t kLast = kSnapshotAt + kTransactions;

  // Each transaction has this many runs of one change.
  static uint64_t RunsOf(uint64_t position) { return 1 + position % 3; }

  void Write() {
    for (uint64_t position = kSnapshotAt + 1; position <= kLast; ++position) {
      AppendBatch batch;
      batch.checkpoint = CheckpointAt(position);
      std::vector<EncodedRun> runs;
      for (uint64_t i = 0; i < RunsOf(position); ++i) {
        runs.push_back(Run(i, {Insert(static_cast<int64_t>(i), {TextValue("x")})}));
      }
      if (position % 5 == 0) {
        const absl::Status spooled = feed_->SpoolParts(position, {schema_}, runs);
        ASSERT_TRUE(spooled.ok()) << spooled;
        batch.spooled.push_back({position, At(position), {}});
      } else {
        batch.transactions.push_back(Inserts(position, {}));
        batch.transactions.back().runs = std::move(runs);
      }
      const absl::Status appended = feed_->Append(batch);
      ASSERT_TRUE(appended.ok()) << appended;
      if (position % 50 == 0 || position == kLast) Sync();
    }
  }

  // Reads on until the last transaction; where retention overtook it, begins again at the floor.
  void Read() {
    uint64_t last = kSnapshotAt;
    while (last < kLast) {
      auto reader = feed_->NewLogReader(At(last));
      if (reader.ok()) {
        const absl::Status ended = ReadWith(reader->get(), &last);
        ASSERT_TRUE(ended.ok() || ReasonOf(ended) == reason::kCursorExpired) << ended;
        if (ended.ok()) continue;
      }
      last = feed_->floor().engine_low();
    }
  }

  // OK at the last transaction.
  absl::Status ReadWith(LogReader* reader, uint64_t* last) {
    StoredRun run;
    uint64_t runs = 0;
    while (*last < kLast) {
      const absl::StatusOr<bool> more = reader->Next(&run);
      if (!more.ok()) return more.status();
      if (!*more) {
        std::this_thread::yield();
        continue;
      }
      EXPECT_EQ(run.first_of_transaction, runs == 0);
      EXPECT_EQ(run.first_sequence, runs);
      EXPECT_EQ(run.position.engine_low(), *last + 1) << "a transaction is missing or doubled";
      ++runs;
      EXPECT_EQ(run.last_of_transaction, runs == RunsOf(*last + 1));
      if (*last % 100 == 0) reader->Rest();
      if (!run.last_of_transaction) continue;
      ++*last;
      runs = 0;
    }
    return absl::OkStatus();
  }
};

// proves R02, R03, A10
TEST_F(ConcurrentReadersTest, EachSeesEveryTransactionWholeAndInOrder) {
  OpenWithLog();
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) threads.emplace_back([this] { Read(); });
  threads.emplace_back([&] {
    while (!done) {
      const auto folded = feed_->FoldOnce();
      ASSERT_TRUE(folded.ok()) << folded.status();
      const auto rows = ReadRows();
      ASSERT_FALSE(rows.empty());
    }
  });
  threads.emplace_back([&] {
    RetentionBounds bounds;
    bounds.bytes = 50'000;
    while (!done) {
      const absl::Status trimmed = feed_->Trim(bounds, absl::Now(), std::nullopt);
      ASSERT_TRUE(trimmed.ok()) << trimmed;
      EXPECT_LE(feed_->floor(), feed_->folded());
      feed_->BytesBehind(feed_->floor());
      feed_->CurrentSchemas();
    }
  });
  Write();
  for (int i = 0; i < 5; ++i) threads[i].join();
  done = true;
  for (size_t i = 5; i < threads.size(); ++i) threads[i].join();
  Fold();
  EXPECT_EQ(feed_->folded(), At(kLast));
  EXPECT_EQ(ReadRows().size(), 1 + 3);
}

}  // namespace
}  // namespace tidemark::store
