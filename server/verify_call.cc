#include "server/verify_call.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "proto/reason.h"
#include "proto/table_name.h"
#include "server/error_status.h"
#include "server/limits.h"
#include "server/reader_request.h"
#include "server/request_error.h"

namespace tidemark {
namespace {

static_assert(limits::verify_findings_max >= 2 * capture::kFindingsAtOnceMax);
constexpr size_t kFindingsWithRoom = limits::verify_findings_max - capture::kFindingsAtOnceMax;

absl::StatusOr<std::vector<TablePattern>> TablesOf(const v1::VerifyRequest& request) {
  std::vector<TablePattern> patterns;
  if (static_cast<size_t>(request.tables_size()) > limits::filter_entries_max) {
    return InvalidRequest("tables",
                          fmt::format("at most {} are taken", limits::filter_entries_max));
  }
  for (const std::string& name : request.tables()) {
    auto pattern = TablePattern::Parse(name);
    if (!pattern.ok()) return InvalidRequest("tables", std::string(pattern.status().message()));
    patterns.push_back(*std::move(pattern));
  }
  return patterns;
}

}  // namespace

grpc::ServerWriteReactor<v1::VerifyResponse>* VerifyCall::Start(
    grpc::CallbackServerContext* context, const v1::VerifyRequest* request,
    const FeedDirectory& feeds, absl::Duration client_stall_timeout) {
  std::shared_ptr<VerifyCall> call(new VerifyCall(context, client_stall_timeout));
  call->self_ = call;
  if (auto given = call->Give(*request, feeds); !given.ok()) call->End(given);
  return call.get();
}

absl::Status VerifyCall::Give(const v1::VerifyRequest& request, const FeedDirectory& feeds) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  auto tables = TablesOf(request);
  if (!tables.ok()) return tables.status();
  const auto feed = feeds.Find(request.feed());
  if (!feed.ok()) return feed.status();
  if (auto status = CheckReady(**feed); !status.ok()) return status;
  feed_ = *feed;
  return feed_->source().Verify({*std::move(tables), shared_from_this()});
}

void VerifyCall::Move() {
  std::unique_lock lock(mutex_);
  if (writing_ || finished_) return;
  if (!peer_gone_ && !queue_.empty()) {
    writing_ = true;
    write_began_ = absl::Now();
    const v1::VerifyResponse* const next = &queue_.front();
    lock.unlock();
    StartWrite(next);
  } else if (peer_gone_ || end_) {
    finished_ = true;
    const absl::Status end =
        peer_gone_ ? absl::CancelledError("the client is gone") : *std::move(end_);
    end_ = end;
    lock.unlock();
    Finish(ToGrpcStatus(end));
  }
}

void VerifyCall::OnWriteDone(bool ok) {
  bool has_room_again = false;
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    queue_.pop_front();
    has_room_again = queue_.size() == kFindingsWithRoom;
  }
  if (!ok) return Leave();
  Move();
  if (has_room_again) feed_->source().Nudge();
}

void VerifyCall::OnCancel() { Leave(); }

// Whoever is comparing is to know at once.
void VerifyCall::Leave() {
  {
    std::lock_guard lock(mutex_);
    peer_gone_ = true;
  }
  if (feed_ != nullptr) feed_->source().Nudge();
  Move();
}

bool VerifyCall::Wanted() const {
  std::lock_guard lock(mutex_);
  return !peer_gone_ && !end_;
}

bool VerifyCall::HasRoom() {
  std::lock_guard lock(mutex_);
  const absl::Duration waits = writing_ ? absl::Now() - write_began_ : absl::ZeroDuration();
  if (waits > client_stall_timeout_ && !peer_gone_) {
    // Only the code and the message of a cancellation pass what the client does not take.
    peer_gone_ = true;
    const std::string message =
        fmt::format("{}: the client took nothing for {} (client_stall_timeout); verify again",
                    reason::kClientStalled, absl::FormatDuration(waits));
    grpc_call_cancel_with_status(context_->c_call(), GRPC_STATUS_DEADLINE_EXCEEDED, message.c_str(),
                                 nullptr);
  }
  return !peer_gone_ && queue_.size() <= kFindingsWithRoom;
}

void VerifyCall::Put(v1::VerifyResponse finding) {
  {
    std::lock_guard lock(mutex_);
    if (peer_gone_ || end_) return;
    queue_.push_back(std::move(finding));
  }
  Move();
}

void VerifyCall::End(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (!end_) end_ = status;
  }
  Move();
}

}  // namespace tidemark
