// One Subscribe call: runs its Subscription against the store, the hub and gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "server/delivery_pool.h"
#include "server/feed.h"
#include "server/log_pager.h"
#include "server/rows_pager.h"
#include "server/stream_bound.h"
#include "server/stream_message.h"
#include "server/stream_registry.h"
#include "server/subscribe_plan.h"
#include "server/subscription.h"
#include "server/tail_hub.h"

namespace tidemark {

// Thread rule: gRPC's callbacks, OnNews and Close only set flags and wake the pool; everything else
// runs in RunStep. At most one write is outstanding, and at most one page beside it is held. Owns
// itself until gRPC is done with it.
class SubscriptionReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                                  public DeliveryTask,
                                  public TailWaiter,
                                  public ClosableStream,
                                  public std::enable_shared_from_this<SubscriptionReactor> {
 public:
  struct Lent {
    const FeedDirectory& feeds;
    StreamRegistry& streams;
    DeliveryPool& pool;
    const std::string& server_version;
    absl::Duration client_stall_timeout;
  };
  // The reactor is gRPC's from here on.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(grpc::CallbackServerContext* context,
                                                           v1::SubscribeRequest request,
                                                           const Lent& lent);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void OnNews() override;
  void Close(const ClosingOrder& order) override;

 private:
  SubscriptionReactor(grpc::CallbackServerContext* context, v1::SubscribeRequest request,
                      const Lent& lent);

  absl::Time RunStep(absl::Time now) override;

  // Checks the request and finds the start; nullopt: the stream is open or ended, else when to try
  // again.
  std::optional<absl::Time> Open(absl::Time now);
  absl::Status OpenAt(absl::Time now);
  // Runs one step of the subscription: may leave messages in outgoing_. Returns when to come again
  // if it left none.
  absl::Time Produce(absl::Time now);
  void SendNext(absl::Time now);
  absl::Time WatchStall(absl::Time now);
  void EndStalled(absl::Duration waits);
  void Rest();

  // Looks whether the bound has become known, and tells the client.
  void UpdateBound();
  void SendOpened(absl::Time now);
  absl::Status ReadRows(absl::Time now);
  absl::Status ReadLogBelowRows(absl::Time now);
  void SendRowsEnd(absl::Time now);
  absl::Status ReadLog(absl::Time now);
  // True: the stream waits for news.
  absl::StatusOr<bool> TakeTail(absl::Time now);
  // False: the filter left nothing to send.
  absl::StatusOr<bool> SendSpans(const std::vector<TailSpan>& spans);
  void SendProgress(absl::Time now);
  void SendClosing();
  absl::Status PushPage(LogPage page);
  absl::Status PushSchemaChange(const store::SchemaTransition& step);
  // Those behind `after`, up to `upto`; true when there was one.
  bool PushGaps(const Position& after, const Position& upto);
  // Sends the schemas that the client was not told yet.
  absl::Status Announce(const std::vector<uint64_t>& schema_ids);
  void Follow(bool follow);
  void ReleaseLog();

  // Ends an open stream with Closing.
  void EndWith(const absl::Status& why, absl::Duration retry_after);
  // The last call to gRPC.
  void FinishWith(const absl::Status& status);
  void Push(StreamMessage message) { outgoing_.push_back(std::move(message)); }
  void UpdateFacts();
  size_t page_bytes() const;
  size_t part_bytes() const;

  grpc::CallbackServerContext* const context_;
  const v1::SubscribeRequest request_;
  const Lent lent_;
  const std::shared_ptr<StreamFacts> facts_ = std::make_shared<StreamFacts>();
  std::shared_ptr<SubscriptionReactor> self_;
  const absl::Time called_;

  // Set by gRPC's threads.
  std::atomic<bool> write_in_flight_{false};
  std::atomic<bool> peer_gone_{false};
  std::mutex order_mutex_;
  std::optional<ClosingOrder> order_;

  // Everything below belongs to RunStep.
  uint64_t stream_id_ = 0;
  bool finished_ = false;
  absl::Time write_began_;
  bool stall_noted_ = false;
  std::optional<SubscribePlan> plan_;
  StreamStart start_;
  std::unique_ptr<StreamBound> bound_;
  bool bound_told_ = false;
  std::optional<Subscription> subscription_;
  std::unique_ptr<RowsPager> rows_;
  // Of the tables without rows, during a bootstrap.
  std::unique_ptr<RunFilter> rowless_filter_;
  std::unique_ptr<LogPager> log_below_rows_;
  std::unique_ptr<LogPager> log_;
  // Up to where it reads.
  std::optional<Position> log_until_;
  bool following_ = false;
  // Bytes read from the log since the stream fell behind the ring.
  size_t behind_bytes_ = 0;
  // The log is held in place for this stream until it has passed this boundary.
  std::optional<Position> keep_until_;
  std::unordered_set<uint64_t> announced_;
  std::deque<StreamMessage> outgoing_;
  StreamMessage in_flight_;
  ClosingOrder ending_;
};

}  // namespace tidemark
