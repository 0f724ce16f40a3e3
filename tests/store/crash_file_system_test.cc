// The file system of crash tests forgets exactly what was not synced.
#include "tests/testing/crash_file_system.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {
namespace {

class CrashFileSystemTest : public ::testing::Test {
 protected:
  CrashFileSystemTest() { std::filesystem::create_directory(folder_ / "data"); }

  std::string Path(const std::string& name) { return (folder_ / "data") / name; }

  std::unique_ptr<rocksdb::WritableFile> Make(const std::string& name) {
    std::unique_ptr<rocksdb::WritableFile> file;
    const rocksdb::Status made =
        disk_.env()->NewWritableFile(Path(name), &file, rocksdb::EnvOptions());
    EXPECT_TRUE(made.ok()) << made.ToString();
    return file;
  }

  // Made, written, synced; its name is not.
  void MakeSynced(const std::string& name, const std::string& text) {
    const auto file = Make(name);
    EXPECT_TRUE(file->Append(text).ok());
    EXPECT_TRUE(file->Sync().ok());
    EXPECT_TRUE(file->Close().ok());
  }

  void SyncFolder() {
    std::unique_ptr<rocksdb::Directory> folder;
    ASSERT_TRUE(disk_.env()->NewDirectory(folder_ / "data", &folder).ok());
    ASSERT_TRUE(folder->Fsync().ok());
  }

  void Crash(uint64_t seed = 0) {
    disk_.LosePower();
    disk_.PowerOn(seed);
  }

  // "-" for no file.
  std::string Read(const std::string& name) {
    std::ifstream file(Path(name));
    if (!file) return "-";
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  ScratchDir folder_;
  CrashFileSystem disk_{folder_ / "links"};
};

TEST_F(CrashFileSystemTest, ForgetsBytesThatWereNotSynced) {
  const auto file = Make("a");
  SyncFolder();
  ASSERT_TRUE(file->Append("kept").ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Append("lost").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read("a"), "keptlost");
  Crash();
  EXPECT_EQ(Read("a"), "kept");
}

TEST_F(CrashFileSystemTest, ForgetsAFileWhoseFolderWasNotSynced) {
  MakeSynced("a", "text");
  Crash();
  EXPECT_EQ(Read("a"), "-");
  MakeSynced("a", "text");
  SyncFolder();
  Crash();
  EXPECT_EQ(Read("a"), "text");
}

TEST_F(CrashFileSystemTest, BringsARemovedFileBack) {
  MakeSynced("a", "text");
  SyncFolder();
  ASSERT_TRUE(disk_.env()->DeleteFile(Path("a")).ok());
  Crash();
  EXPECT_EQ(Read("a"), "text");
  ASSERT_TRUE(disk_.env()->DeleteFile(Path("a")).ok());
  SyncFolder();
  Crash();
  EXPECT_EQ(Read("a"), "-");
}

TEST_F(CrashFileSystemTest, TakesARenameBack) {
  MakeSynced("current", "old");
  SyncFolder();
  MakeSynced("new", "new");
  ASSERT_TRUE(disk_.env()->RenameFile(Path("new"), Path("current")).ok());
  EXPECT_EQ(Read("current"), "new");
  Crash();
  EXPECT_EQ(Read("current"), "old");
  EXPECT_EQ(Read("new"), "-");
  MakeSynced("new", "new");
  ASSERT_TRUE(disk_.env()->RenameFile(Path("new"), Path("current")).ok());
  SyncFolder();
  Crash();
  EXPECT_EQ(Read("current"), "new");
}

TEST_F(CrashFileSystemTest, TakesALinkBackAndKeepsTheOtherName) {
  MakeSynced("a", "text");
  SyncFolder();
  ASSERT_TRUE(disk_.env()->LinkFile(Path("a"), Path("b")).ok());
  EXPECT_EQ(Read("b"), "text");
  Crash();
  EXPECT_EQ(Read("a"), "text");
  EXPECT_EQ(Read("b"), "-");
}

TEST_F(CrashFileSystemTest, KeepsTheOldContentOfAFileThatIsMadeAgain) {
  MakeSynced("a", "old");
  SyncFolder();
  const auto file = Make("a");
  ASSERT_TRUE(file->Append("new").ok());
  ASSERT_TRUE(file->Sync().ok());
  EXPECT_EQ(Read("a"), "new");
  Crash();
  EXPECT_EQ(Read("a"), "old");
}

TEST_F(CrashFileSystemTest, FailsEverythingWithoutPower) {
  const auto file = Make("a");
  disk_.LosePower();
  std::unique_ptr<rocksdb::WritableFile> other;
  std::unique_ptr<rocksdb::SequentialFile> reading;
  EXPECT_TRUE(file->Append("x").IsIOError());
  EXPECT_TRUE(file->Sync().IsIOError());
  EXPECT_TRUE(disk_.env()->DeleteFile(Path("a")).IsIOError());
  EXPECT_TRUE(disk_.env()->RenameFile(Path("a"), Path("b")).IsIOError());
  EXPECT_TRUE(disk_.env()->NewWritableFile(Path("b"), &other, rocksdb::EnvOptions()).IsIOError());
  EXPECT_TRUE(
      disk_.env()->NewSequentialFile(Path("a"), &reading, rocksdb::EnvOptions()).IsIOError());
}

// Some of what was not synced may well survive; never more than was written, never out of order.
TEST_F(CrashFileSystemTest, KeepsAPrefixWithASeed) {
  size_t shortest = 8;
  size_t longest = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto file = Make("a");
    SyncFolder();
    ASSERT_TRUE(file->Append("01").ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Append("234567").ok());
    ASSERT_TRUE(file->Close().ok());
    Crash(seed);
    const std::string text = Read("a");
    ASSERT_GE(text.size(), 2u);
    EXPECT_EQ(text, std::string("01234567").substr(0, text.size()));
    shortest = std::min(shortest, text.size());
    longest = std::max(longest, text.size());
  }
  EXPECT_LT(shortest, 4u);
  EXPECT_GT(longest, 6u);
}

TEST_F(CrashFileSystemTest, RunsFull) {
  const auto file = Make("a");
  disk_.SetSpaceLeft(6);
  EXPECT_TRUE(file->Append("1234").ok());
  EXPECT_TRUE(file->Append("5678").IsNoSpace());
  EXPECT_EQ(Read("a"), "123456");
  disk_.SetSpaceLeft(std::nullopt);
  EXPECT_TRUE(file->Append("78").ok());
}

TEST_F(CrashFileSystemTest, FailsWhatItIsToldTo) {
  const auto file = Make("a");
  disk_.FailWhen([](DiskOperation operation, const std::string& path) {
    return operation == DiskOperation::kSync && path.ends_with("a");
  });
  EXPECT_TRUE(file->Append("x").ok());
  EXPECT_TRUE(file->Sync().IsIOError());
  disk_.FailWhen(nullptr);
  EXPECT_TRUE(file->Sync().ok());
}

// The whole of RocksDB on top: what was synced is there, what was not is gone, and it opens.
TEST_F(CrashFileSystemTest, ADatabaseKeepsWhatItSynced) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.env = disk_.env();
  options.write_buffer_size = 64 << 10;
  int synced = 0;
  int written = 0;
  for (uint64_t round = 0; round < 12; ++round) {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, Path("db"), &opened);
    ASSERT_TRUE(status.ok()) << status.ToString();
    std::unique_ptr<rocksdb::DB> database(opened);
    std::string value;
    for (int i = 0; i < written; ++i) {
      const bool found = database->Get(rocksdb::ReadOptions(), std::to_string(i), &value).ok();
      if (i < synced) {
        ASSERT_TRUE(found) << i << " of " << synced << " in round " << round;
      } else if (!found) {
        break;
      }
    }
    for (int i = 0; i < 300; ++i) {
      rocksdb::WriteOptions write;
      write.sync = i % 50 == 49;
      ASSERT_TRUE(database->Put(write, std::to_string(synced + i), std::string(1000, 'v')).ok());
      if (write.sync) written = synced + i + 1;
    }
    const int durable = written;
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(database->Put(rocksdb::WriteOptions(), std::to_string(durable + i), "v").ok());
    }
    written = durable + 20;
    synced = durable;
    disk_.LosePower();
    database.reset();
    disk_.PowerOn(round % 3);
  }
  EXPECT_EQ(synced, 12 * 300);
}

}  // namespace
}  // namespace tidemark::testing
