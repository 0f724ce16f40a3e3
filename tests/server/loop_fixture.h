// Feeds whose ingest loop runs on a thread of its own, life after life, with a scripted source.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/event_log.h"
#include "server/feed_runner.h"
#include "tests/server/feed_fixture.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {

// Thread rule: one thread at a time.
class LoopFixture : public ::testing::Test {
 protected:
  std::unique_ptr<FeedRunner> Run(FeedFixture& fixture, IngestObserver observer = nullptr) {
    return std::make_unique<FeedRunner>(fixture.feed(), *log_, std::move(observer));
  }
  static void End(std::unique_ptr<FeedRunner>& runner) {
    ASSERT_TRUE(runner->StopBefore(absl::Now() + absl::Seconds(30)));
    runner.reset();
  }
  static ::testing::AssertionResult WaitForState(FeedFixture& fixture, v1::SourceState state) {
    return WaitUntil([&] { return fixture.feed().Status().source_state() == state; }, kDeadline,
                     [&] { return fixture.feed().Status().DebugString(); });
  }
  // As ScriptedSource::events has it.
  static ::testing::AssertionResult WaitForEvent(FeedFixture& fixture, const std::string& event) {
    return WaitUntil([&] { return fixture.source().CountOf(event) > 0; }, kDeadline,
                     [&] {
                       return ::testing::PrintToString(fixture.source().events()) +
                              fixture.feed().Status().DebugString();
                     });
  }
  // The feed has a whole snapshot at 10, with these rows, and begins a new life.
  void Prepare(FeedFixture& fixture, const std::vector<int64_t>& ids = {}) {
    fixture.source().Yield(SnapshotBegins());
    fixture.source().Yield(SnapshotEnds(10, ids));
    auto runner = Run(fixture);
    ASSERT_TRUE(WaitForEvent(fixture, "confirm 10"));
    End(runner);
    // An ended loop takes no orders any more.
    fixture.Reopen();
  }

  static constexpr std::chrono::seconds kDeadline{20};
  const std::unique_ptr<EventLog> log_ = EventLog::Silent();
};

}  // namespace tidemark::testing
