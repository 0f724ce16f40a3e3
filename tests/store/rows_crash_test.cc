// Folded rows and their marker survive, or fail to, together: power is lost at every single
// operation of the disk in turn.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "store/row_value.h"
#include "store/rows_writer.h"
#include "store/stored_rows_reader.h"
#include "tests/testing/crash_file_system.h"
#include "tests/testing/sanitized.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::store {
namespace {

constexpr FeedId kFeed = 7;

class RowsCrashTest : public ::testing::Test {
 protected:
  void Open() {
    database_.reset();
    auto opened = Database::Open({.path = folder_ / "store", .env = disk_.env()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    database_ = *std::move(opened);
    const absl::Status removed = RowsWriter::RemoveLeftovers(database_.get());
    ASSERT_TRUE(removed.ok()) << removed;
  }

  static std::string Table() { return RowsTablePrefix(kFeed, "public", "t"); }

  static FoldedRows Folded(const std::vector<std::string>& names, const std::string& value) {
    FoldedRows folded;
    for (const std::string& name : names) {
      std::string row;
      AppendRowHeader(Position::Of(1, 5), 3, 9, &row);
      row += value;
      folded.rows.push_back({folded.arena.Copy(Table() + name), folded.arena.Copy(row), false});
    }
    return folded;
  }

  // Truncates, then writes three rows: in files, staged in two steps, or as one batch.
  absl::Status Write(uint64_t round, bool staged) {
    const std::string value = fmt::format("{}", round);
    const RowsMarker marker{Position::Of(1, round), Position::Of(1, 1)};
    RowsWriter writer(database_.get(), kFeed);
    if (staged) {
      FoldedRows first = Folded({"a", "b"}, value);
      first.truncated = {Table()};
      if (absl::Status s = writer.Stage(first); !s.ok()) return s;
      return writer.Publish(Folded({"c"}, value), marker);
    }
    FoldedRows all = Folded({"a", "b", "c"}, value);
    all.truncated = {Table()};
    if (absl::Status s = writer.Publish(all, marker); !s.ok()) return s;
    return database_->SyncWal();
  }

  // The round of the marker; every row has to be of that round. 0: nothing was ever published.
  uint64_t Read() {
    auto reader = StoredRowsReader::Open(*database_, kFeed);
    if (!reader.ok()) return 0;
    const uint64_t round = (*reader)->boundary().engine_low();
    StoredRow row;
    int rows = 0;
    for (;; ++rows) {
      const auto more = (*reader)->Next(&row);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) break;
      EXPECT_EQ(row.values, fmt::format("{}", round));
    }
    EXPECT_EQ(rows, 3);
    return round;
  }

  // Loses power at the n-th operation from now on.
  void LosePowerAfter(int operations) {
    operations_left_ = operations;
    disk_.FailWhen([this](testing::DiskOperation, const std::string&) {
      if (operations_left_.fetch_sub(1) > 0) return false;
      disk_.LosePower();
      return true;
    });
  }

  void PowerOnAndOpen(uint64_t seed) {
    disk_.LosePower();
    database_.reset();
    disk_.FailWhen(nullptr);
    disk_.PowerOn(seed);
    Open();
  }

  testing::ScratchDir folder_;
  testing::CrashFileSystem disk_{folder_ / "links"};
  std::atomic<int> operations_left_ = 0;
  std::unique_ptr<Database> database_;
};

// proves R06 for the rows: a marker never speaks of rows that are not there, nor rows of a marker.
TEST_F(RowsCrashTest, RowsAndMarkerAreOneAtEveryMoment) {
  ASSERT_NO_FATAL_FAILURE(Open());
  uint64_t durable = 0;
  uint64_t round = 0;
  // Not a multiple of three, by which the rounds below differ.
  constexpr int kStep = testing::kSanitized ? 4 : 1;
  for (const bool staged : {true, false}) {
    for (int operations = 0, whole = 0; whole < 3; operations += kStep) {
      ASSERT_LT(operations, 500) << "a publication of three rows never ends";
      ++round;
      LosePowerAfter(operations);
      const absl::Status written = Write(round, staged);
      if (written.ok()) {
        durable = round;
        ++whole;
      }
      // Every third time all that was not synced is gone, else a part of it.
      ASSERT_NO_FATAL_FAILURE(PowerOnAndOpen(static_cast<uint64_t>(operations) % 3));
      const uint64_t found = Read();
      ASSERT_GE(found, durable) << "staged " << staged << ", power lost after " << operations;
      ASSERT_LE(found, round);
      durable = found;
    }
  }
}

}  // namespace
}  // namespace tidemark::store
