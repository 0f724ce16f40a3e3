// One subscriber over gRPC that records everything: connects, reads until a condition holds, breaks
// the connection, goes on from the last cursor.
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
#include <string>

#include "tests/testing/recorded_stream.h"
#include "tests/testing/wait_until.h"
#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark::testing {

class LiveSubscriber {
 public:
  // `request.start` holds for the first stream; later ones go on from the last cursor. `recording`
  // is lent.
  LiveSubscriber(const std::string& server, v1::SubscribeRequest request, RecordedStream* recording)
      : stub_(v1::ChangeFeed::NewStub(
            grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), Arguments()))),
        request_(std::move(request)),
        recording_(recording) {}
  ~LiveSubscriber() { Disconnect(); }
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
