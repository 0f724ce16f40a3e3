// What opening a store can meet, each with its own reason and nothing changed.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "proto/reason.h"
#include "rocksdb/db.h"
#include "store/database.h"
#include "store/log_sample.h"
#include "tests/store/store_fixture.h"
#include "tests/testing/crash_file_system.h"
#include "tests/testing/sanitized.h"

namespace tidemark::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreOpenTest : public StoreFixture {
 protected:
  absl::Status TryOpen() { return Store::Open(options_).status(); }

  std::vector<fs::path> Files(const std::string& extension) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(options_.path)) {
      if (entry.path().extension() == extension) files.push_back(entry.path());
    }
    return files;
  }
};

// proves R35
TEST_F(StoreOpenTest, MakesTheFolderAndItsParents) {
  options_.path = scratch_ / "a/b/store";
  OpenWithLog();
  Append({Inserts(110, {1})});
  EXPECT_THAT(Positions(100), ElementsAre(110));
}

TEST_F(StoreOpenTest, ASecondProcessIsToldThatTheStoreIsInUse) {
  OpenWithLog();
  const absl::Status status = TryOpen();
  EXPECT_EQ(ReasonOf(status), reason::kStoreLocked) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another process uses the store"));
}

TEST_F(StoreOpenTest, ReadsAStoreThatIsInUseWithoutTouchingIt) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  StoreOptions options = options_;
  options.read_only = true;
  auto second = Store::Open(options);
  ASSERT_TRUE(second.ok()) << second.status();
  auto feed = (*second)->OpenFeed(kFeedName, "postgres");
  ASSERT_TRUE(feed.ok()) << feed.status();
  auto reader = (*feed)->NewLogReader(At(100));
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(Drain(reader->get()).size(), 1);
  EXPECT_TRUE(absl::IsNotFound((*second)->OpenFeed("never made", "postgres").status()));
}

TEST_F(StoreOpenTest, AFeedStaysOneOfItsEngine) {
  OpenWithLog();
  const absl::Status status = store_->OpenFeed(kFeedName, "poll").status();
  EXPECT_EQ(ReasonOf(status), reason::kConfigInvalid) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("was made for engine postgres, and is configured for poll"));
}

TEST_F(StoreOpenTest, ANewerFormatIsLeftAlone) {
  OpenWithLog();
  Close();
  {
    auto database = Database::Open(options_);
    ASSERT_TRUE(database.ok());
    std::string newer;
    AppendBig32(&newer, kFormatVersion + 1);
    rocksdb::WriteBatch batch;
    batch.Put((*database)->meta(), FormatKey(), newer);
    ASSERT_TRUE((*database)->Write(&batch, true).ok());
  }
  const absl::Status status = TryOpen();
  EXPECT_EQ(ReasonOf(status), reason::kStoreFormatNewer) << status;
  EXPECT_EQ(DetailsOf(status).at("found"), std::to_string(kFormatVersion + 1));
  EXPECT_EQ(DetailsOf(status).at("known"), std::to_string(kFormatVersion));
}

// A store of format 1: its numbers lack the transactions.
TEST_F(StoreOpenTest, AnOlderFormatIsReadAndRaised) {
  OpenWithLog();
  Append({Large(110, 2 * kSampleBytes), Large(120, 10)});
  Close();
  {
    auto database = Database::Open(options_);
    ASSERT_TRUE(database.ok());
    std::string older;
    AppendBig32(&older, 1);
    rocksdb::WriteBatch batch;
    batch.Put((*database)->meta(), FormatKey(), older);
    for (const std::string& key : {FloorKey(1), SampleKey(1, At(110))}) {
      const auto value = (*database)->ReadMeta(key);
      ASSERT_TRUE(value.ok()) << value.status();
      batch.Put((*database)->meta(), key, value->substr(0, value->size() - 8));
    }
    ASSERT_TRUE((*database)->Write(&batch, true).ok());
  }
  Open();
  EXPECT_EQ(Positions(100), (std::vector<uint64_t>{110, 120}));
  EXPECT_EQ(feed_->log_transactions(), 1) << "behind the sample";
  Append({Inserts(130, {1})});
  EXPECT_EQ(feed_->log_transactions(), 2);
  Close();
  auto database = Database::Open(options_);
  ASSERT_TRUE(database.ok());
  const auto raised = (*database)->ReadMeta(FormatKey());
  ASSERT_TRUE(raised.ok());
  EXPECT_EQ(ReadBig32(raised->data()), kFormatVersion);
}

// proves R34
TEST_F(StoreOpenTest, AMissingFileIsNamed) {
  OpenWithLog();
  Append({Large(110, 100'000)});
  Open();
  Close();
  const auto files = Files(".sst");
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) fs::remove(file);
  const absl::Status status = TryOpen();
  EXPECT_EQ(ReasonOf(status), reason::kStoreDamaged) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(".sst"));
}

TEST_F(StoreOpenTest, AFlippedByteOfTheLogIsFoundWhenItIsRead) {
  OpenWithLog();
  Append({Large(110, 300'000), Large(120, 2'000'000)});
  Open();
  Close();
  fs::path largest;
  for (const fs::path& file : Files(".sst")) {
    if (largest.empty() || fs::file_size(file) > fs::file_size(largest)) largest = file;
  }
  {
    std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100'000);
    file.put('\x00').put('\xFF').put('\x00').put('\xFF');
  }
  Open();
  EXPECT_THAT(ReadLog(100), ElementsAre(reason::kStoreDamaged));
}

TEST_F(StoreOpenTest, AFolderOfSomethingElseIsLeftAlone) {
  fs::create_directories(options_.path);
  std::ofstream(fs::path(options_.path) / "photo.jpg") << "not a store";
  const absl::Status status = TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("photo.jpg"));
  EXPECT_EQ(std::distance(fs::directory_iterator(options_.path), fs::directory_iterator()), 1);
}

TEST_F(StoreOpenTest, AnotherProgramsDatabaseIsLeftAlone) {
  {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, options_.path, &opened).ok());
    const std::unique_ptr<rocksdb::DB> database(opened);
    rocksdb::ColumnFamilyHandle* family = nullptr;
    ASSERT_TRUE(database->CreateColumnFamily({}, "photos", &family).ok());
    database->DestroyColumnFamilyHandle(family);
  }
  const absl::Status status = TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("photos"));
}

TEST_F(StoreOpenTest, AnEmptyFolderIsNoStoreToRead) {
  options_.read_only = true;
  EXPECT_TRUE(absl::IsFailedPrecondition(TryOpen()));
  EXPECT_FALSE(fs::exists(options_.path));
}

// However far the first opening came before the power went, the next one ends well.
TEST_F(StoreOpenTest, AnInterruptedCreationIsFinished) {
  // Each is a store of its own.
  const int step = testing::kSanitized ? 8 : 1;
  for (int stop_at = 1;; stop_at += step) {
    const std::string name = fmt::format("{}", stop_at);
    options_.path = scratch_ / name;
    testing::CrashFileSystem disk(scratch_ / ("links-" + name));
    options_.env = disk.env();
    std::atomic<int> operations = 0;
    disk.FailWhen([&](testing::DiskOperation operation, const std::string&) {
      return operation != testing::DiskOperation::kRead && ++operations >= stop_at;
    });
    const absl::Status first = TryOpen();
    disk.LosePower();
    disk.PowerOn(static_cast<uint64_t>(stop_at));
    disk.FailWhen(nullptr);
    OpenWithLog();
    ASSERT_FALSE(HasFatalFailure()) << "stopped at operation " << stop_at << ": " << first;
    Close();
    options_.env = nullptr;
    if (first.ok()) break;
    ASSERT_LT(stop_at, 1000);
  }
}

}  // namespace
}  // namespace tidemark::store
