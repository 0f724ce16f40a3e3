// The limits that the contract lists are those of the server.
#include "server/limits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;

// Rows of the table, as name and value: | limit | 2,000 | `streams_max` |
std::map<std::string, std::string> Listed() {
  static const std::regex row(R"(\| .* \| ([0-9,]+) \| `([a-z_]+)` \|)");
  std::istringstream lines(testing::FileText(testing::SourceDir() / "proto/README.md"));
  std::map<std::string, std::string> listed;
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (!std::regex_match(line, parts, row)) continue;
    std::string value = parts[1];
    std::erase(value, ',');
    listed[parts[2]] = value;
  }
  return listed;
}

TEST(Limits, AreThoseThatTheContractLists) {
#define TIDEMARK_LIMIT(name) \
  { #name, std::to_string(limits::name) }
  const std::map<std::string, std::string> limits = {TIDEMARK_LIMIT(message_bytes_max),
                                                     TIDEMARK_LIMIT(request_bytes_max),
                                                     TIDEMARK_LIMIT(message_bytes_min),
                                                     TIDEMARK_LIMIT(label_bytes_max),
                                                     TIDEMARK_LIMIT(filter_entries_max),
                                                     TIDEMARK_LIMIT(read_page_bytes_max),
                                                     TIDEMARK_LIMIT(read_wait_max_ms),
                                                     TIDEMARK_LIMIT(progress_period_min_ms),
                                                     TIDEMARK_LIMIT(progress_period_max_ms),
                                                     TIDEMARK_LIMIT(streams_max),
                                                     TIDEMARK_LIMIT(feeds_max),
                                                     TIDEMARK_LIMIT(feed_name_bytes_max),
                                                     TIDEMARK_LIMIT(config_file_bytes_max)};
#undef TIDEMARK_LIMIT
  EXPECT_EQ(Listed(), limits);
}

TEST(Limits, TheMemoryThatASourceIsAskedForStandsInTheRunbook) {
  const std::string setting = "logical_decoding_work_mem = '256MB'";
  EXPECT_THAT(testing::FileText(testing::SourceDir() / "capture/postgres/connection.cc"),
              HasSubstr(setting));
  EXPECT_THAT(testing::FileText(testing::SourceDir() / "deploy/RUNBOOK.md"), HasSubstr(setting));
}

}  // namespace
}  // namespace tidemark
