// Follows a feed for as long as it takes: subscribes, hands every change over once and in order,
// connects again with backoff when the stream breaks or falls silent, and goes on strictly behind
// what was handed over.
//
//   class Printer : public FeedHandler {
//     absl::Status OnChange(const ChangeView& change) override { ... }
//     absl::Status OnTransactionEnd(const v1::Transaction& end) override { Save(end.cursor()); }
//   };
//   FeedClientOptions options;
//   options.request.set_feed("main");
//   options.request.mutable_start()->set_cursor(saved);
//   FeedClient client(*MakeChannel({}), options);
//   absl::Status end = client.Run(printer);
//
// Thread rule: Run belongs to one thread, Stop may come from any, also from inside a handler.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/backoff.h"
#include "client/delivery.h"
#include "client/feed_handler.h"
#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark::client {

struct FeedClientOptions {
  // feed, start, filter, until, limits, progress period and label, as the server takes them. A
  // bound that is looked up (now, a time) is looked up once, and kept over reconnects.
  v1::SubscribeRequest request;
  BackoffOptions backoff;
  // False: the first break ends Run with its error.
  bool retries = true;
  // The stream must begin within this time; then Opened.longest_silence holds.
  absl::Duration opening_timeout = absl::Seconds(30);
  // Bound of the memory for values that come in parts.
  uint64_t held_bytes_max = uint64_t{1} << 30;
};

class FeedClient {
 public:
  FeedClient(std::shared_ptr<grpc::Channel> channel, FeedClientOptions options);

  // Returns OK when the stream reached its bound or Stop was called; else the error of the handler,
  // or the error that is not retried (call_error.h). Errors carry a reason (proto/reason.h).
  // REQUIRES: it is called once.
  absl::Status Run(FeedHandler& handler);

  // Ends Run after OnMessageEnd of the message that is being handed over. A handler that wants to
  // hear of nothing more returns an error instead.
  void Stop();

 private:
  struct StreamEnd {
    absl::Status status;
    bool final = false;  // whatever the status says, there is no next attempt
  };

  StreamEnd RunStream(Delivery& delivery, FeedHandler& handler);
  StreamEnd Receive(grpc::CompletionQueue& queue, grpc::ClientContext& context,
                    grpc::ClientAsyncReader<v1::SubscribeResponse>& reader, Delivery& delivery,
                    FeedHandler& handler);
  bool IsStopped();
  void WaitUnlessStopped(absl::Duration wait);

  const FeedClientOptions options_;
  const std::unique_ptr<v1::ChangeFeed::Stub> stub_;
  std::mt19937_64 random_{std::random_device()()};

  std::mutex mutex_;
  std::condition_variable stopped_changed_;
  bool stopped_ = false;                    // guarded by mutex_
  grpc::ClientContext* context_ = nullptr;  // guarded by mutex_; of the stream that runs
};

}  // namespace tidemark::client
