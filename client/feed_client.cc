#include "client/feed_client.h"

#include <fmt/format.h>
#include <grpcpp/completion_queue.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "client/call_error.h"
#include "client/reason.h"
#include "proto/reason.h"
#include "proto/timestamps.h"

namespace tidemark::client {
namespace {

// One operation is under way at a time, so the tag says nothing.
void* const kTag = nullptr;

struct Completion {
  bool in_time = false;
  bool ok = false;
};

// Waits for the operation under way; when the time is up, cancels the call and waits for the end of
// the operation, which comes at once then.
Completion WaitFor(grpc::CompletionQueue& queue, grpc::ClientContext& context,
                   absl::Duration timeout) {
  void* tag = nullptr;
  Completion completion;
  const auto deadline = std::chrono::system_clock::now() +
                        absl::ToChronoMicroseconds(std::min(timeout, absl::Hours(24)));
  completion.in_time =
      queue.AsyncNext(&tag, &completion.ok, deadline) == grpc::CompletionQueue::GOT_EVENT;
  if (!completion.in_time) {
    context.TryCancel();
    queue.Next(&tag, &completion.ok);
    completion.ok = false;
  }
  return completion;
}

absl::Status SilentError(absl::Duration silence) {
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kServerSilent,
                         fmt::format("nothing arrived for {}, so the connection is taken for dead",
                                     absl::FormatDuration(silence)));
}

}  // namespace

FeedClient::FeedClient(std::shared_ptr<grpc::Channel> channel, FeedClientOptions options)
    : options_(std::move(options)), stub_(v1::ChangeFeed::NewStub(std::move(channel))) {}

absl::Status FeedClient::Run(FeedHandler& handler) {
  Delivery delivery(handler, options_.request.start(), options_.request.until(),
                    options_.held_bytes_max);
  Backoff backoff(options_.backoff);
  while (!IsStopped()) {
    backoff.Started(absl::Now());
    StreamEnd end = RunStream(delivery, handler);
    if (IsStopped() && !end.final) return absl::OkStatus();
    if (end.final || !options_.retries || !IsRetried(end.status)) return end.status;
    if (delivery.has_advanced()) backoff.Succeeded();
    const double random = std::uniform_real_distribution<double>(0, 1)(random_);
    const absl::Duration wait =
        backoff.Failed(absl::Now(), FromDuration(delivery.closing().retry_after()), random);
    handler.OnDisconnected(end.status, wait);
    WaitUnlessStopped(wait);
  }
  return absl::OkStatus();
}

FeedClient::StreamEnd FeedClient::RunStream(Delivery& delivery, FeedHandler& handler) {
  v1::SubscribeRequest request = options_.request;
  *request.mutable_start() = delivery.NextStart();
  *request.mutable_until() = delivery.NextUntil();
  delivery.BeginStream();

  grpc::ClientContext context;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return {absl::OkStatus(), true};
    context_ = &context;
  }
  grpc::CompletionQueue queue;
  StreamEnd end;
  {
    const auto reader = stub_->PrepareAsyncSubscribe(&context, request, &queue);
    end = Receive(queue, context, *reader, delivery, handler);
    std::lock_guard lock(mutex_);
    context_ = nullptr;
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  return end;
}

FeedClient::StreamEnd FeedClient::Receive(grpc::CompletionQueue& queue,
                                          grpc::ClientContext& context,
                                          grpc::ClientAsyncReader<v1::SubscribeResponse>& reader,
                                          Delivery& delivery, FeedHandler& handler) {
  absl::Duration silence_max = options_.opening_timeout;
  absl::Status local;  // why this side gave the stream up
  bool final = false;
  v1::SubscribeResponse record;
  reader.StartCall(kTag);
  Completion done = WaitFor(queue, context, silence_max);
  while (done.ok && local.ok() && !IsStopped()) {
    reader.Read(&record, kTag);
    done = WaitFor(queue, context, silence_max);
    if (!done.ok) break;
    if (record.has_opened()) silence_max = FromDuration(record.opened().longest_silence());
    if (silence_max <= absl::ZeroDuration()) silence_max = absl::InfiniteDuration();
    local = delivery.Take(record);
    if (local.ok()) local = handler.OnMessageEnd();
    final = !local.ok();
  }
  if (!done.in_time) local = SilentError(silence_max);
  // Only where this side ends the stream: a cancellation would hide the status of the server's end.
  if (done.ok) context.TryCancel();
  grpc::Status status;
  reader.Finish(&status, kTag);
  WaitFor(queue, context, absl::InfiniteDuration());
  if (!local.ok()) return {local, final};
  // The bound was reached: an end with OK is one that the server decided.
  if (status.ok()) return {absl::OkStatus(), true};
  return {FromGrpcStatus(status), false};
}

bool FeedClient::IsStopped() {
  std::lock_guard lock(mutex_);
  return stopped_;
}

void FeedClient::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  if (context_ != nullptr) context_->TryCancel();
  stopped_changed_.notify_all();
}

void FeedClient::WaitUnlessStopped(absl::Duration wait) {
  std::unique_lock lock(mutex_);
  stopped_changed_.wait_for(lock, absl::ToChronoMicroseconds(wait), [this] { return stopped_; });
}

}  // namespace tidemark::client
