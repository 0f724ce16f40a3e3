// Which source a configuration is.
#include "capture/source_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/reason.h"

namespace tidemark::capture {
namespace {

std::vector<std::string> TextsOf(const v1::FeedConfig& config) {
  std::vector<std::string> texts;
  const auto tables = ConfiguredTables(config);
  EXPECT_TRUE(tables.ok()) << tables.status();
  if (!tables.ok()) return texts;
  for (const TablePattern& table : *tables) texts.push_back(table.Text());
  return texts;
}

std::string EngineOf(const v1::FeedConfig& config) {
  const auto source = MakeSource(config);
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? (*source)->Describe().engine : "";
}

v1::FeedConfig Polled() {
  v1::FeedConfig config;
  config.set_name("shop");
  v1::PolledTable* table = config.mutable_poll()->add_tables();
  table->set_table("shop.orders");
  table->set_cursor("updated_at");
  return config;
}

TEST(SourceFactoryTest, EachEngineHasItsSource) {
  v1::FeedConfig postgres;
  postgres.mutable_postgres();
  EXPECT_EQ(EngineOf(postgres), "postgres");
  EXPECT_EQ(EngineOf(Polled()), "poll");
  v1::FeedConfig changelog;
  changelog.mutable_changelog();
  EXPECT_EQ(EngineOf(changelog), "changelog");
}

TEST(SourceFactoryTest, WithoutAnEngineThereIsNone) {
  const absl::Status status = MakeSource(v1::FeedConfig()).status();
  EXPECT_EQ(ReasonOf(status), reason::kConfigInvalid) << status;
  const std::vector<Finding> findings = CheckSource(v1::FeedConfig());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].reason, reason::kConfigInvalid);
}

TEST(SourceFactoryTest, AFeedThatIsToBeMovedIsPolledAndKeepsItsTables) {
  v1::FeedConfig config = Polled();
  config.mutable_postgres();
  EXPECT_EQ(EngineOf(config), "poll");
  EXPECT_THAT(TextsOf(config), ::testing::ElementsAre("shop.orders"));
  config.mutable_postgres()->add_tables("shop.*");
  EXPECT_THAT(TextsOf(config), ::testing::ElementsAre("shop.*"));
  EXPECT_THAT(TextsOf(v1::FeedConfig()), ::testing::ElementsAre("public.*"));
}

// proves A02
TEST(SourceFactoryTest, ASourceSaysWhatItCannotPromise) {
  const auto source = MakeSource(Polled());
  ASSERT_TRUE(source.ok()) << source.status();
  const SourceDescription polled = (*source)->Describe();
  EXPECT_EQ(polled.completeness, v1::COMPLETENESS_CLASS_WINDOW_BOUNDED);
  EXPECT_FALSE(polled.replays_exactly);
  EXPECT_FALSE(polled.notes.empty());
}

}  // namespace
}  // namespace tidemark::capture
