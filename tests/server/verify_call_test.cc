// The call Verify between a source and a client, each of which may be slow, or gone.
#include "server/verify_call.h"

#include <gmock/gmock.h>

#include "proto/reason.h"
#include "server/limits.h"
#include "tests/server/scripted_source.h"
#include "tests/testing/test_server.h"
#include "tests/testing/wait_until.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark {
namespace {

using testing::ScriptedSource;
using ::testing::StartsWith;
using testing::WaitUntil;
using namespace std::chrono_literals;

constexpr char kConfig[] = R"(
  - {name: shop, postgres: {host: /none, database: d, user: u}}
client_stall_timeout: 2s
)";

class VerifyCallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.make_source =
        [this](const v1::FeedConfig&) -> absl::StatusOr<std::unique_ptr<capture::Source>> {
      auto made = std::make_unique<ScriptedSource>();
      source_ = made.get();
      return made;
    };
    server_ = std::make_unique<testing::TestServer>(kConfig, options);
    const absl::Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
    stub_ = v1::FeedAdmin::NewStub(
        grpc::CreateChannel(server_->server().address(), grpc::InsecureChannelCredentials()));
  }
  void MakeReady() {
    source_->Yield(testing::SnapshotBegins());
    source_->Yield(testing::SnapshotEnds(10));
    ASSERT_TRUE(WaitUntil([&] { return source_->CountOf("confirm 10") > 0; }, 20s));
  }

  using Reader = std::unique_ptr<grpc::ClientReader<v1::VerifyResponse>>;
  Reader Call(const std::string& feed = "shop", const std::vector<std::string>& tables = {}) {
    context_ = std::make_unique<grpc::ClientContext>();
    v1::VerifyRequest request;
    request.set_feed(feed);
    request.mutable_tables()->Add(tables.begin(), tables.end());
    return stub_->Verify(context_.get(), request);
  }
  std::shared_ptr<capture::VerificationSink> Sink() {
    EXPECT_TRUE(WaitUntil([&] { return source_->verify().sink != nullptr; }, 20s));
    return source_->verify().sink;
  }
  // How a call ends that finds nothing.
  grpc::Status End(Reader reader) {
    v1::VerifyResponse response;
    EXPECT_FALSE(reader->Read(&response));
    return reader->Finish();
  }
  // As a source does: so much as there is room for. Returns how many it put.
  static uint64_t PutWhileThereIsRoom(capture::VerificationSink& sink, uint64_t first) {
    uint64_t number = first;
    while (sink.HasRoom()) {
      for (size_t i = 0; i < capture::kFindingsAtOnceMax; ++i) {
        v1::VerifyResponse finding;
        finding.set_rows_compared(number++);
        finding.set_key(std::string(2000, 'k'));
        sink.Put(finding);
      }
    }
    return number - first;
  }

  ScriptedSource* source_ = nullptr;
  std::unique_ptr<testing::TestServer> server_;
  std::unique_ptr<v1::FeedAdmin::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
};

TEST_F(VerifyCallTest, HandsOnWhatWasFoundInOrderAndTheEnd) {  // proves A52
  MakeReady();
  Reader reader = Call("shop", {"public.a", "public.b*"});
  const auto sink = Sink();
  ASSERT_EQ(source_->verify().tables.size(), 2u);
  EXPECT_EQ(source_->verify().tables[1].Text(), "public.b*");
  for (uint64_t number = 0; number < 100; ++number) {
    v1::VerifyResponse finding;
    finding.set_rows_compared(number);
    sink->Put(finding);
  }
  sink->End(absl::OkStatus());
  EXPECT_FALSE(sink->Wanted());
  sink->Put({});  // too late
  v1::VerifyResponse response;
  for (uint64_t number = 0; number < 100; ++number) {
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.rows_compared(), number);
  }
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(VerifyCallTest, SaysWhyItCannotBeDone) {
  EXPECT_EQ(End(Call("shop")).error_code(), grpc::StatusCode::UNAVAILABLE) << "no snapshot yet";
  MakeReady();
  EXPECT_EQ(End(Call("nowhere")).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(End(Call("shop", {"Public.a"})).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  source_->SetVerify(ErrorWithReason(absl::StatusCode::kResourceExhausted,
                                     reason::kVerificationRunning, "it is being verified"));
  EXPECT_EQ(End(Call("shop")).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(source_->verify().sink, nullptr) << "no order was given";
}

// proves A52: a client that does not read holds the source up, in bounded memory, and loses
// nothing.
TEST_F(VerifyCallTest, ASlowClientIsWaitedFor) {
  MakeReady();
  Reader reader = Call();
  const auto sink = Sink();
  uint64_t put = 0;
  const auto full = [&] {
    put += PutWhileThereIsRoom(*sink, put);
    return put > limits::verify_findings_max;
  };
  ASSERT_TRUE(WaitUntil(full, 20s));
  EXPECT_FALSE(sink->HasRoom());
  const uint64_t before = put;
  v1::VerifyResponse response;
  for (uint64_t number = 0; number < before; ++number) {
    ASSERT_TRUE(reader->Read(&response));
    ASSERT_EQ(response.rows_compared(), number);
  }
  ASSERT_TRUE(WaitUntil([&] { return sink->HasRoom(); }, 20s));
  sink->End(absl::OkStatus());
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(VerifyCallTest, AClientThatGoesEndsIt) {  // proves A52
  MakeReady();
  Reader reader = Call();
  const auto sink = Sink();
  EXPECT_TRUE(sink->Wanted());
  context_->TryCancel();
  EXPECT_TRUE(WaitUntil([&] { return !sink->Wanted(); }, 20s));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  sink->End(absl::OkStatus());
}

TEST_F(VerifyCallTest, AClientThatTakesNothingForLongIsEnded) {
  MakeReady();
  Reader reader = Call();
  const auto sink = Sink();
  uint64_t put = 0;
  // The source looks for room again and again.
  ASSERT_TRUE(WaitUntil(
      [&] {
        put += PutWhileThereIsRoom(*sink, put);
        return !sink->Wanted();
      },
      20s));
  v1::VerifyResponse response;
  while (reader->Read(&response)) continue;
  const grpc::Status end = reader->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(end.error_message(), StartsWith(std::string(reason::kClientStalled) + ": "));
}

}  // namespace
}  // namespace tidemark
