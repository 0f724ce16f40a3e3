// One subscriber over gRPC that records everything: connects, reads until a condition holds, breaks
// the connection, goes on from the last cursor. When it goes out of scope while its server lives,
// it runs CheckResumable, and CheckWitnessed where the server has a witness: no test can forget
// them.
//
// In a header, since only test programs that link the services may use it. Thread rule: one thread
// at a time.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/reason.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/recorded_stream.h"
#include "tests/testing/wait_until.h"
#include "tests/testing/witness.h"
#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark::testing {

class LiveSubscriber {
 public:
  // `request.start` holds for the first stream; later ones go on from the last cursor. `recording`
  // is lent.
  LiveSubscriber(const std::string& server, v1::SubscribeRequest request, RecordedStream* recording)
      : server_(server),
        channel_(
            grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), Arguments())),
        stub_(v1::ChangeFeed::NewStub(channel_)),
        request_(std::move(request)),
        recording_(recording) {}
  ~LiveSubscriber() {
    Disconnect();
    if (!recording_->checked() || ::testing::Test::HasFailure()) return;
    if (!channel_->WaitForConnected(std::chrono::system_clock::now() + kServerWait)) return;
    CheckCursors();
    AskWitness();
  }
  LiveSubscriber(const LiveSubscriber&) = delete;
  LiveSubscriber& operator=(const LiveSubscriber&) = delete;

  // Opens a stream; waits for a server that is not there yet.
  void Connect() {
    Disconnect();
    v1::SubscribeRequest request = request_;
    if (!recording_->resume_cursor().empty()) {
      request.mutable_start()->set_cursor(recording_->resume_cursor());
    }
    recording_->Connected(request);
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_wait_for_ready(true);
    queue_ = std::make_unique<grpc::CompletionQueue>();
    reader_ = stub_->PrepareAsyncSubscribe(context_.get(), request, queue_.get());
    reader_->StartCall(nullptr);
    operation_under_way_ = true;
    waits_for_record_ = false;
  }

  bool is_connected() const { return reader_ != nullptr; }
  // The newest record says that everything that is there was delivered, and the stream goes on.
  bool is_live() const {
    if (recording_->segments().empty()) return false;
    const auto& events = recording_->segments().back().events;
    return !events.empty() && events.back().record.progress().state() == v1::FEED_STATE_LIVE;
  }
  // How the last stream ended.
  const grpc::Status& end() const { return end_; }

  // Reads records until `condition` holds or the stream ends; the failure says how far it came.
  ::testing::AssertionResult ReadUntil(const std::function<bool()>& condition,
                                       std::chrono::milliseconds deadline) {
    const auto give_up = std::chrono::system_clock::now() + deadline * kDeadlineFactor;
    while (!condition()) {
      const Outcome outcome = ReadRecord(give_up);
      if (outcome == Outcome::kRecord) continue;
      return ::testing::AssertionFailure() << fmt::format(
                 "{}: {} with {} finished transactions; end: {} {}", recording_->name(),
                 outcome == Outcome::kEnded ? "the stream ended" : "no record came in time",
                 recording_->finished_transactions(), static_cast<int>(end_.error_code()),
                 end_.error_message());
    }
    return ::testing::AssertionSuccess();
  }

  ::testing::AssertionResult ReadUntilLive(std::chrono::milliseconds deadline) {
    return ReadUntil([this] { return is_live(); }, deadline);
  }

  // Until the server ends the stream.
  ::testing::AssertionResult ReadToEnd(std::chrono::milliseconds deadline) {
    const auto give_up = std::chrono::system_clock::now() + deadline * kDeadlineFactor;
    while (true) {
      switch (ReadRecord(give_up)) {
        case Outcome::kEnded:
          return ::testing::AssertionSuccess();
        case Outcome::kTimeout:
          return ::testing::AssertionFailure() << recording_->name() << ": the stream goes on";
        case Outcome::kRecord:
          break;
      }
    }
  }

  // Like ReadUntil, and connects again as often as the stream breaks.
  ::testing::AssertionResult FollowUntil(const std::function<bool()>& condition,
                                         std::chrono::milliseconds deadline) {
    const auto give_up = std::chrono::system_clock::now() + deadline * kDeadlineFactor;
    while (!condition()) {
      if (!is_connected()) Connect();
      if (ReadRecord(give_up) != Outcome::kTimeout) continue;
      return ::testing::AssertionFailure() << fmt::format(
                 "{}: condition not met with {} finished transactions over {} streams; last end: "
                 "{}",
                 recording_->name(), recording_->finished_transactions(),
                 recording_->segments().size(), end_.error_message());
    }
    return ::testing::AssertionSuccess();
  }

  // Breaks the connection from this side.
  void Disconnect() {
    if (!is_connected()) return;
    context_->TryCancel();
    Await(std::chrono::system_clock::time_point::max());
    Close("cancelled by the subscriber");
  }

 private:
  enum class Outcome { kRecord, kEnded, kTimeout };
  using Deadline = std::chrono::system_clock::time_point;

  static grpc::ChannelArguments Arguments() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
    // A channel of its own: a break here breaks nobody else's stream.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return arguments;
  }

  // Complete, from where the log of the last bootstrap begins, or the first stream without one.
  void AskWitness() {
    const Witness witness = WitnessOf(server_, request_.feed());
    if (witness == nullptr) return;
    std::string begin;
    for (const RecordedSegment& segment : recording_->segments()) {
      for (const RecordedEvent& event : segment.events) {
        const v1::Opened& opened = event.record.opened();
        if (opened.rows_follow() || begin.empty()) begin = opened.start_cursor();
      }
    }
    const std::string after = PositionOf(begin);
    const std::string upto = PositionOf(recording_->resume_cursor());
    if (after.empty() || upto.empty()) return;
    const absl::StatusOr<Testimony> testimony = witness();
    if (!testimony.ok()) {
      fmt::print("{}: no witness: {}\n", recording_->name(), testimony.status().ToString());
      return;
    }
    const absl::Status kept = CheckWitnessed(*recording_, *testimony, after, upto);
    if (!kept.ok()) ADD_FAILURE() << recording_->name() << ": " << kept.message();
  }

  // Empty: the server does not say.
  std::string PositionOf(const std::string& cursor) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kResumeWait * kDeadlineFactor);
    v1::InspectCursorRequest request;
    request.set_feed(request_.feed());
    request.set_cursor(cursor);
    v1::InspectCursorResponse response;
    stub_->InspectCursor(&context, request, &response);
    return response.position();
  }

  // Resumable, at some of the cursors that were handed out, unless the server is gone.
  void CheckCursors() {
    bool gone = false;
    const absl::Status kept = CheckResumable(
        *recording_, [&](const std::string& cursor) { return FirstBehind(cursor, &gone); },
        kCursorsTried);
    if (!kept.ok() && !gone) ADD_FAILURE() << recording_->name() << ": " << kept.message();
  }

  absl::StatusOr<std::string> FirstBehind(const std::string& cursor, bool* gone) {
    v1::SubscribeRequest request = request_;
    request.clear_until();
    request.mutable_start()->set_cursor(cursor);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kResumeWait * kDeadlineFactor);
    const auto reader = stub_->Subscribe(&context, request);
    std::optional<std::string> position;
    v1::SubscribeResponse record;
    while (!position && reader->Read(&record)) {
      if (record.has_progress()) position = "";
      if (record.batch().transactions_size() > 0) {
        position = record.batch().transactions(0).position();
      }
    }
    if (position) context.TryCancel();
    const grpc::Status end = reader->Finish();
    if (position) return *position;
    *gone = *gone || end.error_code() == grpc::StatusCode::UNAVAILABLE;
    for (const std::string_view reason :
         {reason::kCursorExpired, reason::kCursorAhead, reason::kCursorDiverged}) {
      if (end.error_details().find(reason) == std::string::npos) continue;
      return ErrorWithReason(absl::StatusCode::kOutOfRange, reason, end.error_message());
    }
    return absl::UnknownError(end.error_message());
  }

  // Waits for the operation under way. False: not in time, it goes on.
  bool Await(Deadline deadline) {
    if (!operation_under_way_) return true;
    void* tag = nullptr;
    if (queue_->AsyncNext(&tag, &operation_ok_, deadline) != grpc::CompletionQueue::GOT_EVENT) {
      return false;
    }
    operation_under_way_ = false;
    return true;
  }

  Outcome ReadRecord(Deadline deadline) {
    if (!is_connected()) return Outcome::kEnded;
    if (!Await(deadline)) return Outcome::kTimeout;
    if (!waits_for_record_ && operation_ok_) {
      reader_->Read(&record_, nullptr);
      operation_under_way_ = waits_for_record_ = true;
      read_began_ = std::chrono::steady_clock::now();
      if (!Await(deadline)) return Outcome::kTimeout;
    }
    if (!operation_ok_) {
      Close({});
      return Outcome::kEnded;
    }
    waits_for_record_ = false;
    recording_->Record(record_, std::chrono::duration_cast<std::chrono::milliseconds>(
                                    std::chrono::steady_clock::now() - read_began_));
    return Outcome::kRecord;
  }

  void Close(const std::string& why) {
    reader_->Finish(&end_, nullptr);
    operation_under_way_ = true;
    Await(Deadline::max());
    queue_->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
    }
    reader_.reset();
    queue_.reset();
    context_.reset();
    recording_->Disconnected(!why.empty() ? why : end_.ok() ? "OK" : end_.error_message());
  }

  static constexpr std::chrono::seconds kServerWait{1};
  static constexpr std::chrono::seconds kResumeWait{20};
  static constexpr size_t kCursorsTried = 4;

  const std::string server_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::ChangeFeed::Stub> stub_;
  const v1::SubscribeRequest request_;
  RecordedStream* const recording_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::SubscribeResponse>> reader_;
  v1::SubscribeResponse record_;
  std::chrono::steady_clock::time_point read_began_;
  bool operation_under_way_ = false;
  bool operation_ok_ = false;
  bool waits_for_record_ = false;
  grpc::Status end_;
};

}  // namespace tidemark::testing
