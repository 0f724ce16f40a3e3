// One Read call: a page of the log, waited for if the client asks for that.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <limits>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/delivery_pool.h"
#include "server/feed.h"
#include "server/log_pager.h"
#include "server/run_filter.h"
#include "server/stream_bound.h"
#include "server/tail_hub.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

// Thread rule: gRPC's callbacks and OnNews only wake the pool; everything else runs in RunStep.
// Owns itself until gRPC is done with it.
class ReadCall final : public grpc::ServerUnaryReactor,
                       public DeliveryTask,
                       public TailWaiter,
                       public std::enable_shared_from_this<ReadCall> {
 public:
  static grpc::ServerUnaryReactor* Start(const v1::ReadRequest* request, v1::ReadResponse* response,
                                         const FeedDirectory& feeds, DeliveryPool& pool);

  void OnCancel() override;
  void OnDone() override { const auto last = std::move(self_); }
  void OnNews() override { pool_.Wake(shared_from_this()); }

 private:
  ReadCall(const v1::ReadRequest* request, v1::ReadResponse* response, const FeedDirectory& feeds,
           DeliveryPool& pool)
      : request_(*request), response_(response), feeds_(feeds), pool_(pool) {}

  absl::Time RunStep(absl::Time now) override;
  absl::Status Open(absl::Time now);
  absl::Status OpenBound(Feed& feed);
  // Brings what may be read up to date; false when the page has to wait for its bound.
  bool UpdateBound(absl::Time now);
  // Whether a page that reached the end of what may be read, when `proved` was proved, is the last.
  bool IsFinished(const Position& proved) const;
  void LookForGap(const Position& head);
  // True when there is nothing to answer with yet, and it is worth waiting.
  bool Waits(const LogPage& page, bool finished, absl::Time now) const;
  // True: the response is complete.
  absl::StatusOr<bool> ReadOn(absl::Time now);
  // False: with its schemas the page is too large for a message.
  absl::StatusOr<bool> Fill(const LogPage& page, const std::optional<InsidePosition>& inside);
  void FinishWith(const absl::Status& status);

  const v1::ReadRequest request_;
  v1::ReadResponse* const response_;
  const FeedDirectory& feeds_;
  DeliveryPool& pool_;
  std::shared_ptr<ReadCall> self_;
  std::atomic<bool> peer_gone_{false};

  const absl::Time called_ = absl::Now();
  Feed* feed_ = nullptr;
  RunFilter filter_;
  Position after_;
  std::optional<Position> until_;
  int64_t commit_time_us_max_ = std::numeric_limits<int64_t>::max();
  // With `until` only.
  std::unique_ptr<StreamBound> bound_;
  std::optional<InsidePosition> inside_;
  // Where the page ends, at the latest.
  std::optional<store::Gap> gap_;
  size_t page_bytes_ = 0;
  absl::Time deadline_;
  bool finished_ = false;
};

}  // namespace tidemark
