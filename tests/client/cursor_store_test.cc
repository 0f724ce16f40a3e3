#include "client/cursor_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "client/reason.h"
#include "proto/reason.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::client {
namespace {

class CursorFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& content) { std::ofstream(path_, std::ios::binary) << content; }
  std::string Content() {
    std::ostringstream content;
    content << std::ifstream(path_, std::ios::binary).rdbuf();
    return content.str();
  }

  testing::ScratchDir scratch_{"cursor"};
  const std::filesystem::path path_ = scratch_ / "tail.cursor";
  CursorFile file_{path_};
};

TEST_F(CursorFileTest, IsAbsentUntilStoredThenTheNewest) {
  auto loaded = file_.Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_FALSE(loaded->has_value());
  ASSERT_TRUE(file_.Store("AQ_b-1").ok());
  ASSERT_TRUE(file_.Store("AQ_b-2").ok());
  loaded = CursorFile(path_).Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, "AQ_b-2");
  EXPECT_EQ(Content(), "AQ_b-2\n");
  // Nothing but the file is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 1);
}

// proves R34
TEST_F(CursorFileTest, TakesNoDamageForAbsence) {
  const std::string long_cursor(CursorFile::kCursorBytesMax + 1, 'A');
  for (const std::string& content :
       {std::string(), std::string("AQb1"), std::string("\n"), std::string("AQb1\nAQb2\n"),
        std::string("AQ b1\n"), std::string("AQb1\0\n", 6), std::string(1 << 20, '\0'),
        long_cursor + "\n"}) {
    Write(content);
    const auto loaded = file_.Load();
    ASSERT_FALSE(loaded.ok()) << content.size() << " bytes";
    EXPECT_EQ(ReasonOf(loaded.status()), reason::kCursorFileDamaged);
    EXPECT_EQ(DetailsOf(loaded.status()).at("file"), path_.string());
  }
}

// proves R34
TEST_F(CursorFileTest, TakesAnUnreadableFileForAnError) {
  std::filesystem::create_directory(path_);
  const auto loaded = file_.Load();
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(ReasonOf(loaded.status()), reason::kCursorFileIo);
}

// proves R35
TEST_F(CursorFileTest, KeepsTheOldCursorWhenItCannotStore) {
  ASSERT_TRUE(file_.Store("AQb1").ok());
  EXPECT_EQ(ReasonOf(file_.Store("")), reason::kCursorFileDamaged);
  EXPECT_EQ(ReasonOf(file_.Store("no cursor\n")), reason::kCursorFileDamaged);
  // The temporary file cannot be made.
  std::filesystem::create_directory(path_.string() + ".tmp");
  EXPECT_EQ(ReasonOf(file_.Store("AQb2")), reason::kCursorFileIo);
  EXPECT_EQ(Content(), "AQb1\n");
  CursorFile nowhere(scratch_ / "absent" / "cursor");
  EXPECT_EQ(ReasonOf(nowhere.Store("AQb1")), reason::kCursorFileIo);
}

TEST_F(CursorFileTest, WritesIntoTheCurrentFolderToo) {
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(scratch_.path());
  CursorFile file("plain.cursor");
  const absl::Status stored = file.Store("AQb1");
  std::filesystem::current_path(here);
  EXPECT_TRUE(stored.ok()) << stored;
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "plain.cursor"));
}

}  // namespace
}  // namespace tidemark::client
