#include "capture/postgres/scratch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/testing/scratch_dir.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::HasSubstr;

TEST(ScratchFile, HoldsBytesAndNoName) {
  const testing::ScratchDir folder;
  absl::StatusOr<ScratchFile> opened = ScratchFile::Open(folder.path(), "scratch");
  ASSERT_TRUE(opened.ok()) << opened.status();
  ScratchFile file = *std::move(opened);
  ASSERT_TRUE(file.Append("0123").ok());
  ASSERT_TRUE(file.Append("").ok());
  ASSERT_TRUE(file.Append("456789").ok());
  EXPECT_EQ(file.size(), 10u);
  std::string read = "behind ";
  ASSERT_TRUE(file.Read(2, 5, &read).ok());
  EXPECT_EQ(read, "behind 23456");
  EXPECT_TRUE(absl::IsDataLoss(file.Read(8, 3, &read)));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const absl::StatusOr<uint64_t> free = file.DiskFreeBytes();
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_GT(*free, 0u);
}

TEST(ScratchFile, SaysWhereNoneCanBeMade) {
  const testing::ScratchDir folder;
  const auto opened = ScratchFile::Open(folder / "missing", "scratch");
  ASSERT_TRUE(absl::IsNotFound(opened.status())) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr((folder / "missing").string()));
}

}  // namespace
}  // namespace tidemark::capture::postgres
