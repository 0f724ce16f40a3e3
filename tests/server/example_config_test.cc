// The example configuration is one: as it stands, and with every key that it shows.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/config.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/code_blocks.h"
#include "tests/testing/file_text.h"

namespace tidemark {
namespace {

std::string Example() {
  return testing::FileText(testing::SourceDir() / "deploy/tidemark.example.yaml");
}

absl::StatusOr<v1::Config> Parsed(const std::string& text) {
  return ParseConfig(text, "example", [](const std::string&) { return std::optional("secret"); });
}

// A key that is commented out; what is prose does not look like one.
const std::regex kCommented(R"(^( *)# ( *(?:- )?[a-z_]+:(?: .*)?)$)");

// With every key in force but `without`.
std::string WithEveryKey(const std::string& without) {
  std::istringstream lines(Example());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    line = std::regex_replace(line, kCommented, "$1$2");
    if (line.find_first_not_of(' ') != line.find(without + ":")) text += line + "\n";
  }
  return text;
}

// Of every message that the file can hold.
void CollectKeys(const google::protobuf::Descriptor& message, std::set<std::string>* keys) {
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.field(i);
    keys->insert(field.name());
    if (field.message_type() == nullptr ||
        field.message_type()->full_name() == "tidemark.v1.ByteSize" ||
        field.message_type()->full_name() == "google.protobuf.Duration") {
      continue;
    }
    CollectKeys(*field.message_type(), keys);
  }
}

TEST(ExampleConfig, IsAccepted) {
  const auto config = Parsed(Example());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->feeds_size(), 1);
}

TEST(ExampleConfig, IsAcceptedWithEveryKeyThatItShows) {
  // At most one of password and password_file.
  const auto config = Parsed(WithEveryKey("password"));
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->feeds_size(), 3);
  EXPECT_EQ(config->feeds(0).retention().age().seconds(), 30 * 24 * 3600);
  EXPECT_EQ(config->feeds(1).poll().tables(1).overlap_values(), 10'000u);
  EXPECT_TRUE(config->feeds(1).has_postgres());
  EXPECT_EQ(config->feeds(2).changelog().columns().old_row(), "old_row");
}

TEST(ExampleConfig, ThoseOfTheReadmeAreAccepted) {
  const std::vector<std::string> shown =
      testing::CodeBlocks(testing::FileText(testing::SourceDir() / "README.md"), "yaml");
  ASSERT_EQ(shown.size(), 2u);
  const auto first = Parsed(shown[0]);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->feeds(0).has_postgres());
  // The second is one more feed of the list.
  const auto both = Parsed(shown[0] + shown[1]);
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(both->feeds_size(), 2);
  EXPECT_EQ(both->feeds(1).poll().tables(0).cursor(), "updated_at");
}

TEST(ExampleConfig, ShowsEveryKey) {
  std::set<std::string> keys;
  CollectKeys(*v1::Config::descriptor(), &keys);
  const std::string example = Example();
  for (const std::string& key : keys) {
    EXPECT_TRUE(std::regex_search(example, std::regex("\\b" + key + ":"))) << key;
  }
}

}  // namespace
}  // namespace tidemark
