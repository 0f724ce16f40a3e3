#include "server/read_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "proto/reason.h"
#include "proto/timestamps.h"
#include "server/error_status.h"
#include "server/limits.h"
#include "server/page_token.h"
#include "server/reader_request.h"
#include "server/request_error.h"
#include "server/stream_records.h"

namespace tidemark {

grpc::ServerUnaryReactor* ReadCall::Start(const v1::ReadRequest* request,
                                          v1::ReadResponse* response, const FeedDirectory& feeds,
                                          DeliveryPool& pool) {
  std::shared_ptr<ReadCall> call(new ReadCall(request, response, feeds, pool));
  call->self_ = call;
  pool.Wake(call);
  return call.get();
}

void ReadCall::OnCancel() {
  peer_gone_ = true;
  pool_.Wake(shared_from_this());
}

absl::Time ReadCall::RunStep(absl::Time now) {
  if (finished_) return absl::InfiniteFuture();
  absl::Status status;
  if (peer_gone_) {
    status = absl::CancelledError("the client is gone");
  } else {
    if (feed_ == nullptr) status = Open(now);
    if (ReasonOf(status) == reason::kCursorAhead &&
        now < called_ + absl::Milliseconds(limits::cursor_ahead_wait_ms)) {
      return now + absl::Milliseconds(limits::cursor_ahead_retry_ms);
    }
    if (status.ok()) {
      auto complete = ReadOn(now);
      if (complete.ok() && !*complete) return deadline_;
      status = complete.status();
    }
  }
  FinishWith(status);
  return absl::InfiniteFuture();
}

void ReadCall::FinishWith(const absl::Status& status) {
  finished_ = true;
  if (feed_ != nullptr) feed_->tail().StopWaiting(this);
  Finish(ToGrpcStatus(status));
}

absl::Status ReadCall::Open(absl::Time now) {
  if (auto status = CheckNothingUnknown("request", request_); !status.ok()) return status;
  const absl::Duration wait = FromDuration(request_.wait());
  if (wait < absl::ZeroDuration() || wait > absl::Milliseconds(limits::read_wait_max_ms)) {
    return InvalidRequest(
        "wait", fmt::format("{} is out of range; 0 to {} ms are taken", absl::FormatDuration(wait),
                            limits::read_wait_max_ms));
  }
  deadline_ = now + wait;
  if (request_.has_until() && wait == absl::ZeroDuration()) {
    deadline_ = now + absl::Milliseconds(limits::read_bound_wait_ms);
  }
  page_bytes_ = request_.page_bytes_max() == 0
                    ? limits::read_page_bytes_max
                    : std::min<size_t>(request_.page_bytes_max(), limits::read_page_bytes_max);
  auto feed = feeds_.Find(request_.feed());
  if (!feed.ok()) return feed.status();
  if (auto status = CheckReady(**feed); !status.ok()) return status;
  auto filter = FilterOf(**feed, request_.filter());
  if (!filter.ok()) return filter.status();
  filter_ = *std::move(filter);
  after_ = (*feed)->store().floor();
  if (!request_.cursor().empty()) {
    auto after = ReachableBoundary(**feed, request_.cursor());
    if (!after.ok()) return after.status();
    after_ = *after;
  }
  if (request_.has_until()) {
    if (auto status = OpenBound(**feed); !status.ok()) return status;
  }
  if (!request_.until_cursor().empty()) {
    auto until = ReachableBoundary(**feed, request_.until_cursor());
    if (!until.ok()) return until.status();
    if (*until < after_) {
      return InvalidRequest("until_cursor", "the page would begin behind its bound");
    }
    until_ = *until;
  }
  if (!request_.page_token().empty()) {
    auto inside = ParsePageToken(request_.page_token());
    if (!inside.ok()) return inside.status();
    if (inside->position <= after_) {
      return InvalidRequest("page_token", "belongs to another cursor; begin again at this one");
    }
    inside_ = *inside;
    after_ = BoundaryBefore(inside->position);
    if (auto status = CheckReachable(**feed, after_); !status.ok()) return status;
  }
  feed_ = *feed;
  return absl::OkStatus();
}

absl::Status ReadCall::OpenBound(Feed& feed) {
  if (auto status = CheckUntil(request_.until()); !status.ok()) return status;
  if (!request_.until_cursor().empty()) {
    return InvalidRequest("until", "given beside until_cursor; at most one of the two");
  }
  auto bound = StreamBound::Open(feed, request_.until(),
                                 {.start = after_, .on_news = [call = weak_from_this()] {
                                    if (const auto waiting = call.lock()) waiting->OnNews();
                                  }});
  if (!bound.ok()) return bound.status();
  if ((*bound)->bounded()) bound_ = *std::move(bound);
  return absl::OkStatus();
}

bool ReadCall::UpdateBound(absl::Time now) {
  if (bound_ == nullptr) return true;
  bound_->Update();
  until_ = bound_->limit().position;
  commit_time_us_max_ = bound_->limit().commit_time_us_max;
  // A page without it would leave the next one to look "now" up again, later.
  return bound_->known() || !request_.until().has_now() || now >= deadline_;
}

bool ReadCall::IsFinished(const Position& proved) const {
  if (bound_ == nullptr || !bound_->known()) return false;
  const Position& proof = bound_->known()->proof;
  const Position here = bound_->ProvedHere(proved);
  return here >= proof && here.generation() == proof.generation();
}

bool ReadCall::Waits(const LogPage& page, bool finished, absl::Time now) const {
  if (!page.batch.empty() || page.inside || finished || now >= deadline_) return false;
  if (gap_) return false;
  return bound_ != nullptr || !until_;
}

// The page ends in front of the first gap that it would pass.
void ReadCall::LookForGap(const Position& head) {
  gap_.reset();
  const auto gaps = feed_->store().GapsBetween(after_, std::min(head, until_.value_or(head)));
  if (!gaps.empty()) gap_ = gaps.front();
}

absl::StatusOr<bool> ReadCall::ReadOn(absl::Time now) {
  for (size_t page_bytes = page_bytes_;;) {
    if (!UpdateBound(now)) return false;
    LogPager::Options options;
    options.commit_time_us_max = commit_time_us_max_;
    options.cursor_of = [this](const Position& position) { return feed_->Cursor(position); };
    const Position proved = feed_->tail().proved();
    const Position head = feed_->tail().head();
    LookForGap(head);
    options.until = gap_ ? std::optional(gap_->from) : until_;
    if (request_.changes_max() > 0) options.changes_max = request_.changes_max();
    LogPager pager(feed_->store(), filter_, after_, std::move(options));
    if (inside_) {
      auto found = pager.SkipInto(*inside_);
      if (!found.ok()) return found.status();
      if (!*found) {
        return InvalidRequest("page_token",
                              "names no place of this feed's log; begin again at "
                              "the last cursor");
      }
    }
    auto page = pager.Next(page_bytes);
    if (!page.ok()) return page.status();
    // What is behind the gap is not this page's concern.
    if (gap_ && page->too_late && *page->too_late > gap_->from) page->too_late.reset();
    bool finished = page->at_end && !gap_ && IsFinished(proved);
    if (page->too_late) {
      finished = true;
      bound_->TooLateAt(*page->too_late);
      page->upto = bound_->known()->until;
      gap_.reset();
    } else if (page->at_end && gap_) {
      page->upto = gap_->to;
    } else if (page->at_end) {
      const Position end = std::min(head, until_.value_or(head));
      page->upto = std::max(page->upto, ClipToGeneration(feed_->store(), end));
      if (bound_ != nullptr && page->batch.empty()) {
        if (auto status = bound_->CheckProvable(); !status.ok()) return status;
      }
    } else {
      gap_.reset();
    }
    const bool nothing = page->batch.empty() && !page->inside;
    if (nothing && !page->at_end) {
      // A bounded stretch was read of which the filter left nothing: go on behind it, in turn.
      after_ = page->upto;
      pool_.Wake(shared_from_this());
      return false;
    }
    if (Waits(*page, finished, now)) {
      after_ = page->upto;
      const bool known = bound_ != nullptr && bound_->known();
      const auto proof = known ? std::optional(bound_->known()->proof) : std::nullopt;
      if (feed_->tail().Wait(after_, shared_from_this(), proof)) return false;
      continue;
    }
    auto filled = Fill(*page, pager.inside());
    if (!filled.ok()) return filled.status();
    response_->set_finished(finished);
    if (bound_ != nullptr && bound_->known()) *response_->mutable_bound() = bound_->Describe();
    if (*filled) return true;
    page_bytes /= 2;
  }
}

absl::StatusOr<bool> ReadCall::Fill(const LogPage& page,
                                    const std::optional<InsidePosition>& inside) {
  response_->Clear();
  v1::Batch batch;
  if (!batch.ParseFromString(page.batch)) {
    return DamagedStore("a page of the log");
  }
  std::set<uint64_t> schema_ids;
  for (const v1::Transaction& transaction : batch.transactions()) {
    for (const v1::Run& run : transaction.runs()) {
      schema_ids.insert(run.schema_ids().begin(), run.schema_ids().end());
    }
  }
  for (const uint64_t id : schema_ids) {
    auto schema = feed_->store().Schema(id);
    if (!schema.ok()) return schema.status();
    *response_->add_table_schemas() = *std::move(schema);
  }
  response_->mutable_transactions()->Swap(batch.mutable_transactions());
  if (page.inside) {
    response_->set_page_token(PageTokenText(*inside));
  } else {
    response_->set_cursor(feed_->Cursor(page.upto));
  }
  if (gap_) *response_->mutable_gap() = DescribeGap(*feed_, *gap_, true);
  response_->set_caught_up(page.at_end && !gap_);
  // A single transaction is never cut further: then its schemas alone are what is too much.
  return response_->ByteSizeLong() <= limits::message_bytes_max ||
         response_->transactions_size() <= 1;
}

}  // namespace tidemark
