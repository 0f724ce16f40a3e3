// A subscriber that reads nothing for longer than the configuration allows.
#include <gmock/gmock.h>

#include <numeric>

#include "proto/reason.h"
#include "tests/server/scripted_source.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/recorded_stream.h"
#include "tests/testing/test_server.h"

namespace tidemark {
namespace {

using testing::LiveSubscriber;
using testing::RecordedStream;
using testing::ScriptedSource;
using ::testing::StartsWith;
using testing::WaitUntil;
using namespace std::chrono_literals;

// Together more than gRPC and the kernel take for a reader that does not read.
constexpr uint64_t kFirst = 11;
constexpr uint64_t kTransactions = 60;
constexpr size_t kRowsPerTransaction = 40;
constexpr size_t kTextBytes = 8'192;

capture::CaptureBatch WideBatch(uint64_t number) {
  std::vector<int64_t> ids(kRowsPerTransaction);
  std::iota(ids.begin(), ids.end(), 0);
  capture::CaptureBatch batch = testing::TransactionBatch(number, ids);
  EncodedTransaction& transaction =
      std::get<capture::TransactionRead>(batch.events.back()).transaction;
  v1::Run run;
  EXPECT_TRUE(run.ParseFromString(transaction.runs[0].bytes));
  for (v1::Change& change : *run.mutable_changes())
    change.mutable_after(1)->set_text(std::string(kTextBytes, 'x'));
  transaction.runs[0].bytes = run.SerializeAsString();
  transaction.record.set_bytes(transaction.runs[0].bytes.size());
  return batch;
}

// The keys at the top level stand behind the list of feeds.
constexpr char kConfig[] = R"(
  - {name: shop, postgres: {host: /none, database: d, user: u}}
client_stall_timeout: 1s
)";

// proves B155
TEST(ClientStallTest, EndsTheStreamWithItsReasonAndLosesNothing) {
  ScriptedSource* source = nullptr;
  ServerOptions options;
  options.make_source =
      [&](const v1::FeedConfig&) -> absl::StatusOr<std::unique_ptr<capture::Source>> {
    auto made = std::make_unique<ScriptedSource>();
    source = made.get();
    return made;
  };
  testing::TestServer server(kConfig, options);
  const absl::Status started = server.Start();
  ASSERT_TRUE(started.ok()) << started;
  source->Yield(testing::SnapshotBegins());
  source->Yield(testing::SnapshotEnds(10));
  ASSERT_TRUE(WaitUntil([&] { return source->CountOf("confirm 10") > 0; }, 20s));

  v1::SubscribeRequest request;
  request.set_feed("shop");
  request.mutable_start()->mutable_earliest();
  RecordedStream stalled_recording("stalled");
  RecordedStream reading_recording("reading");
  LiveSubscriber stalled(server.server().address(), request, &stalled_recording);
  LiveSubscriber reading(server.server().address(), request, &reading_recording);
  const auto has_all = [](const RecordedStream& stream) {
    return [&] { return stream.finished_transactions() >= kTransactions; };
  };
  stalled.Connect();
  ASSERT_TRUE(
      stalled.ReadUntil([&] { return !stalled_recording.segments().back().events.empty(); }, 20s));
  for (uint64_t number = kFirst; number < kFirst + kTransactions; ++number) {
    source->Yield(WideBatch(number));
  }
  ASSERT_TRUE(reading.FollowUntil(has_all(reading_recording), 60s));
  // The one that reads stays; its stream was never broken.
  ASSERT_TRUE(WaitUntil([&] { return server.server().streams().Count("shop") == 1; }, 30s));
  EXPECT_EQ(reading_recording.segments().size(), 1u);

  // What was on its way is there to be read, then the reason.
  ASSERT_TRUE(stalled.ReadToEnd(20s));
  EXPECT_LT(stalled_recording.finished_transactions(), kTransactions);
  EXPECT_EQ(stalled.end().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(stalled.end().error_message(),
              StartsWith(std::string(reason::kClientStalled) + ": "));
  ASSERT_TRUE(stalled.FollowUntil(has_all(stalled_recording), 60s));
  EXPECT_EQ(stalled_recording.segments().size(), 2u);
  const auto seen = testing::SeenTransactions(stalled_recording);
  ASSERT_TRUE(seen.ok()) << seen.status();
  ASSERT_EQ(seen->size(), kTransactions);
  for (size_t i = 0; i < kTransactions; ++i) {
    EXPECT_EQ((*seen)[i].position, testing::At(kFirst + i).Text());
  }
}

}  // namespace
}  // namespace tidemark
