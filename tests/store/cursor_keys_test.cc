// The file of cursor keys: made once, whole and private; read strictly.
#include "store/cursor_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "proto/reason.h"
#include "store/cursor.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::store {
namespace {

const std::string kHex(64, 'a');

TEST(CursorKeysTest, MakesAPrivateFileThatReadsBack) {
  testing::ScratchDir folder;
  const std::string path = folder / "keys";
  const auto made = ReadOrMakeCursorKeys(path);
  ASSERT_TRUE(made.ok()) << made.status();
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(made->keys.size(), 1u);
  EXPECT_EQ(made->keys.at(made->signing_key).size(), 32u);
  const auto again = ReadOrMakeCursorKeys(path);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->keys, made->keys);
  // Nothing but the file is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(CursorKeysTest, ServersThatMakeItAtOnceAgree) {
  testing::ScratchDir folder;
  const std::string path = folder / "keys";
  std::vector<std::string> secrets(8);
  std::vector<std::thread> servers;
  for (std::string& secret : secrets) {
    servers.emplace_back([&] {
      const auto keys = ReadOrMakeCursorKeys(path);
      if (keys.ok()) secret = keys->keys.at(keys->signing_key);
    });
  }
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(secrets[0].size(), 32u);
  for (const std::string& secret : secrets) EXPECT_EQ(secret, secrets[0]);
}

TEST(CursorKeysTest, TheLastKeySigns) {
  const auto keys =
      ParseCursorKeys("# comment\n\n7 " + kHex + "\r\n 3\t" + std::string(32, 'B') + "\n", "f");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->signing_key, 3);
  EXPECT_EQ(keys->keys.at(3), std::string(16, '\xBB'));
  EXPECT_EQ(keys->keys.at(7), std::string(32, '\xAA'));
}

TEST(CursorKeysTest, NamesTheLineOfABadFileAndNeverItsContent) {
  const std::map<std::string, std::pair<std::string, std::string>> table = {
      {"empty", {"", "1"}},
      {"comments only", {"# nothing\n", "1"}},
      {"no key", {"# c\n1\n", "2"}},
      {"id too large", {"256 " + kHex, "1"}},
      {"negative id", {"-1 " + kHex, "1"}},
      {"id no number", {"1x " + kHex, "1"}},
      {"odd digits", {"1 " + kHex + "a", "1"}},
      {"no hex", {"1 " + kHex + "zz", "1"}},
      {"two keys on a line", {"1 " + kHex + " " + kHex, "1"}},
      {"too short", {"1 aabb", "1"}},
      {"same id twice", {"1 " + kHex + "\n1 " + kHex, "2"}},
      {"binary", {std::string("\x00\x01\x02 \xff", 5), "1"}},
  };
  for (const auto& [what, text] : table) {
    const auto keys = ParseCursorKeys(text.first, "/etc/keys");
    ASSERT_FALSE(keys.ok()) << what;
    EXPECT_EQ(ReasonOf(keys.status()), reason::kConfigInvalid) << what;
    EXPECT_EQ(DetailsOf(keys.status()).at("line"), text.second) << what;
    EXPECT_EQ(DetailsOf(keys.status()).at("file"), "/etc/keys") << what;
    EXPECT_EQ(std::string(keys.status().message()).find("aaaa"), std::string::npos) << what;
  }
}

TEST(CursorKeysTest, LeavesABadFileAsItIs) {
  testing::ScratchDir folder;
  const std::string path = folder / "keys";
  std::ofstream(path) << "broken\n";
  EXPECT_EQ(ReasonOf(CursorCodec::Open(path).status()), reason::kConfigInvalid);
  EXPECT_EQ(std::filesystem::file_size(path), 7u);
}

TEST(CursorKeysTest, SaysWhyTheFileCannotBeMade) {
  testing::ScratchDir folder;
  const auto keys = ReadOrMakeCursorKeys(folder / "missing/keys");
  ASSERT_FALSE(keys.ok());
  EXPECT_EQ(ReasonOf(keys.status()), reason::kStoreIo);
  EXPECT_NE(std::string(keys.status().message()).find("missing/keys"), std::string::npos);
}

TEST(CursorKeysTest, CursorsOutliveTheServer) {
  testing::ScratchDir folder;
  const std::string path = folder / "keys";
  const auto before = CursorCodec::Open(path);
  ASSERT_TRUE(before.ok()) << before.status();
  const Position position = Position::Of(1, 42);
  const std::string cursor = before->Encode("identity", position);
  const auto after = CursorCodec::Open(path);
  ASSERT_TRUE(after.ok()) << after.status();
  const auto decoded = after->Decode(cursor, "identity");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, position);
}

}  // namespace
}  // namespace tidemark::store
