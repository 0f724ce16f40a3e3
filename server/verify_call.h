// One Verify call: hands the order to the source, and its findings to the client as fast as that
// takes them.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "capture/verification.h"
#include "server/feed.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Thread rule: gRPC's threads and the source's; none of them waits. At most one write is
// outstanding, and at most limits::verify_findings_max findings beside it are held. Owns itself
// until gRPC is done with it; the source shares it until it has ended it.
class VerifyCall final : public grpc::ServerWriteReactor<v1::VerifyResponse>,
                         public capture::VerificationSink,
                         public std::enable_shared_from_this<VerifyCall> {
 public:
  // The reactor is gRPC's from here on.
  static grpc::ServerWriteReactor<v1::VerifyResponse>* Start(grpc::CallbackServerContext* context,
                                                             const v1::VerifyRequest* request,
                                                             const FeedDirectory& feeds,
                                                             absl::Duration client_stall_timeout);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { const auto last = std::move(self_); }

  bool Wanted() const override;
  bool HasRoom() override;
  void Put(v1::VerifyResponse finding) override;
  void End(const absl::Status& status) override;

 private:
  VerifyCall(grpc::CallbackServerContext* context, absl::Duration client_stall_timeout)
      : context_(context), client_stall_timeout_(client_stall_timeout) {}

  absl::Status Give(const v1::VerifyRequest& request, const FeedDirectory& feeds);
  // Writes what is next, or finishes.
  void Move();
  void Leave();

  grpc::CallbackServerContext* const context_;
  const absl::Duration client_stall_timeout_;
  // Set before the source knows of this.
  Feed* feed_ = nullptr;
  std::shared_ptr<VerifyCall> self_;

  mutable std::mutex mutex_;
  std::deque<v1::VerifyResponse> queue_;  // the first is being written while writing_
  bool writing_ = false;
  absl::Time write_began_;
  bool peer_gone_ = false;
  std::optional<absl::Status> end_;
  bool finished_ = false;
};

}  // namespace tidemark
