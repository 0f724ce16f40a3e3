#include "server/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "tests/testing/scratch_dir.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

const EventFields kFields = {
    {"feed", "shop"}, {"message", "a \"b\"\nc\\d\x01"}, {"empty", ""}, {"bytes", "5"}};

std::string Written(const std::string& format, const std::string& level,
                    const std::function<void(EventLog&)>& write) {
  testing::ScratchDir scratch("log");
  v1::LogConfig config;
  config.set_file((scratch / "log").string());
  config.set_format(format);
  config.set_level(level);
  const auto log = EventLog::Open(config);
  EXPECT_TRUE(log.ok()) << log.status();
  write(**log);
  std::ifstream stream(scratch / "log");
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(EventLog, TextIsOneLineOfKeysAndValues) {
  EXPECT_EQ(EventText("source lost", kFields),
            R"(source lost feed=shop message="a \"b\"\nc\\d\u0001" empty="" bytes=5)");
}

TEST(EventLog, JsonIsOneObject) {
  EXPECT_EQ(EventJson("source lost", kFields),
            R"("event":"source lost","feed":"shop","message":"a \"b\"\nc\\d\u0001","empty":"",)"
            R"("bytes":"5")");
}

TEST(EventLog, LinesCarryTimeAndLevel) {
  const auto write = [](EventLog& log) { log.Warning("it {} happened", {{"feed", "%v"}}); };
  EXPECT_THAT(Written("text", "info", write),
              MatchesRegex("20[0-9-]+T[0-9:.]+Z warning it \\{\\} happened feed=%v\n"));
  EXPECT_THAT(
      Written("json", "info", write),
      MatchesRegex("\\{\"time\":\"20[0-9-]+T[0-9:.]+Z\",\"level\":\"warning\",\"event\":\"it "
                   "\\{\\} happened\",\"feed\":\"%v\"\\}\n"));
}

TEST(EventLog, TheLevelHoldsForLaterEvents) {
  const std::string text = Written("text", "warn", [](EventLog& log) {
    log.Info("one", {});
    log.SetLevel("info");
    log.Info("two", {});
    log.SetLevel("error");
    log.Warning("three", {});
  });
  EXPECT_THAT(text, AllOf(HasSubstr("two"), Not(HasSubstr("one")), Not(HasSubstr("three"))));
}

TEST(EventLog, LowerLevelsAreLeftOut) {
  const std::string text = Written("text", "warn", [](EventLog& log) {
    log.Debug("one", {});
    log.Info("two", {});
    log.Warning("three", {});
    log.Error("four", {});
  });
  EXPECT_THAT(text, Not(HasSubstr("two")));
  EXPECT_THAT(text, HasSubstr("three"));
  EXPECT_THAT(text, HasSubstr("error four"));
}

TEST(EventLog, AFileThatCannotBeOpenedIsAnError) {
  v1::LogConfig config;
  config.set_file("/proc/none/log");
  EXPECT_THAT(std::string(EventLog::Open(config).status().message()),
              HasSubstr("log.file cannot be opened"));
}

}  // namespace
}  // namespace tidemark
