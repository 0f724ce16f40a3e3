// A server with two feeds, "one" and "two", each with a source that the test scripts.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "tests/server/scripted_source.h"
#include "tests/testing/test_server.h"

namespace tidemark::testing {

class TwoFeeds : public ::testing::Test {
 protected:
  TwoFeeds() : server_(kFeeds, Options()) {}
  // A stuck source would hold up the end of a failed test.
  ~TwoFeeds() override {
    for (auto& [name, source] : sources_) source->SetStuck(false);
  }

  // For another server with sources of the same kind.
  ServerOptions Options() {
    ServerOptions options;
    options.make_source =
        [this](const v1::FeedConfig& feed) -> absl::StatusOr<std::unique_ptr<capture::Source>> {
      auto source = std::make_unique<ScriptedSource>();
      sources_[feed.name()] = source.get();
      return source;
    };
    return options;
  }

  // Owned by the server, from its start on.
  std::map<std::string, ScriptedSource*> sources_;
  TestServer server_;

 private:
  static constexpr char kFeeds[] = R"(
  - {name: one, postgres: {host: /none, database: d, user: u}}
  - {name: two, postgres: {host: /none, database: d, user: u}}
)";
};

}  // namespace tidemark::testing
