// A server that runs, and its configuration read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_replace.h"
#include "proto/reason.h"
#include "server/config_reloader.h"
#include "tests/server/two_feeds.h"
#include "tests/testing/named_pipe.h"
#include "tests/testing/scratch_dir.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::WaitUntil;
using namespace std::chrono_literals;

class ReloadTest : public testing::TwoFeeds {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.Start().ok()); }

  // The server's file with `with` in the place of `text`.
  std::string Changed(const std::string& text, const std::string& with) const {
    const std::string before = server_.ConfigText();
    EXPECT_THAT(before, HasSubstr(text));
    return absl::StrReplaceAll(before, {{text, with}});
  }
  void Reload(const std::string& text) {
    server_.server().Reload(
        ParseConfig(text, "t.yaml", [](const std::string&) { return std::nullopt; }));
  }
  size_t Reloads() const {
    const std::string log = server_.Log();
    size_t count = 0;
    for (size_t at = 0; (at = log.find("configuration read again", at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  }
};

TEST_F(ReloadTest, TakesOverWhatItCanAndNamesTheRest) {
  Reload(Changed("name: two, postgres: {", "name: two, postgres: {tables: [public.a, public.b], "));
  EXPECT_THAT(sources_["two"]->tables(), ElementsAre("public.a", "public.b"));
  EXPECT_THAT(sources_["one"]->tables(), IsEmpty()) << "its list is what it was";
  EXPECT_THAT(server_.Log(),
              HasSubstr("info configuration read again applied=feeds[1].postgres.tables "
                        "with_restart=\"\"\n"));
  EXPECT_THAT(server_.Log(),
              HasSubstr("tables of the feed feed=two tables=\"public.a, public.b\""));

  // Back again, and more.
  const std::string more =
      absl::StrReplaceAll(server_.ConfigText(), {{"listen: 127.0.0.1:0", "listen: 127.0.0.1:1"},
                                                 {"store: {", "store: {retention: {age: 5s}, "}});
  Reload(more);
  EXPECT_THAT(sources_["two"]->tables(), ElementsAre("public.*"));
  EXPECT_THAT(
      server_.Log(),
      HasSubstr("warning configuration read again applied=\"store.retention.age, "
                "feeds[0].retention.age, feeds[1].postgres.tables, feeds[1].retention.age\" "
                "with_restart=listen\n"));
  for (const auto& feed : server_.server().feeds().feeds()) {
    EXPECT_EQ(feed->retention().age, absl::Seconds(5)) << feed->name();
  }
  // What needs a restart still does.
  Reload(more);
  EXPECT_THAT(server_.Log(),
              HasSubstr("warning configuration read again applied=\"\" with_restart=listen\n"));
}

TEST_F(ReloadTest, TheLogLevelHoldsAtOnce) {
  Reload(Changed("log: {", "log: {level: warn, "));
  EXPECT_EQ(Reloads(), 0u) << "said at the new level";
  Reload(server_.ConfigText());
  EXPECT_THAT(server_.Log(),
              HasSubstr("info configuration read again applied=log.level with_restart=\"\"\n"));
}

TEST_F(ReloadTest, AFileWithErrorsChangesNothing) {
  Reload(Changed("postgres: {", "postgres: {tables: [public.a], nonsense: 1, "));
  EXPECT_THAT(sources_["one"]->tables(), IsEmpty());
  EXPECT_EQ(Reloads(), 0u);
  // All of its errors are one event.
  EXPECT_THAT(server_.Log(), HasSubstr("error configuration refused reason=CONFIG_INVALID "
                                       "message=\"t.yaml:6:"));
  EXPECT_THAT(server_.Log(), HasSubstr("feeds[1].postgres.nonsense: unknown key"));
}

TEST_F(ReloadTest, AFailedFeedTakesItsTablesWithARestart) {
  sources_["one"]->Fail(ErrorWithReason(absl::StatusCode::kFailedPrecondition,
                                        reason::kSourcePrivilege, "not allowed"));
  ASSERT_TRUE(WaitUntil(
      [&] { return server_.Log().find("source failed: needs a person") != std::string::npos; },
      20s));
  Reload(Changed("postgres: {", "postgres: {tables: [public.a], "));
  EXPECT_THAT(sources_["one"]->tables(), IsEmpty());
  EXPECT_THAT(sources_["two"]->tables(), ElementsAre("public.a"));
  EXPECT_THAT(server_.Log(), HasSubstr("applied=feeds[1].postgres.tables "
                                       "with_restart=feeds[0].postgres.tables\n"));
}

TEST_F(ReloadTest, ManyRequestsAreOneWhileTheFileIsRead) {
  const testing::ScratchDir scratch("reload");
  testing::NamedPipe pipe(scratch / "config");
  ConfigReloader reloader((scratch / "config").string(), server_.server());
  reloader.Request();
  ASSERT_TRUE(pipe.WaitForReader());
  for (int i = 0; i < 5; ++i) reloader.Request();
  // From now on it is a file.
  std::ofstream(scratch / "file") << server_.ConfigText();
  std::filesystem::rename(scratch / "file", scratch / "config");
  EXPECT_EQ(Reloads(), 0u);
  pipe.Write(server_.ConfigText());
  EXPECT_TRUE(WaitUntil([&] { return Reloads() == 2; }, 20s, [&] { return server_.Log(); }));
  reloader.Request();
  EXPECT_TRUE(WaitUntil([&] { return Reloads() > 2; }, 20s));
  EXPECT_TRUE(reloader.Stop());
  EXPECT_EQ(Reloads(), 3u);
}

TEST_F(ReloadTest, NothingChangesOnceStopped) {
  const testing::ScratchDir scratch("reload");
  testing::NamedPipe pipe(scratch / "config");
  ConfigReloader reloader((scratch / "config").string(), server_.server());
  reloader.Request();
  ASSERT_TRUE(pipe.WaitForReader());
  EXPECT_FALSE(reloader.Stop()) << "it is still being read";
  pipe.Write(server_.ConfigText());
  EXPECT_TRUE(WaitUntil([&] { return reloader.Stop(); }, 20s));
  EXPECT_EQ(Reloads(), 0u);
}

}  // namespace
}  // namespace tidemark
