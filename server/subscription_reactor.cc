#include "server/subscription_reactor.h"

#include <fmt/format.h>
#include <grpc/grpc.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "proto/reason.h"
#include "server/error_status.h"
#include "server/limits.h"
#include "server/reader_request.h"
#include "server/stream_records.h"
#include "server/tail_cut.h"

namespace tidemark {
namespace {

constexpr absl::Duration kAheadWait = absl::Milliseconds(limits::cursor_ahead_wait_ms);
constexpr absl::Duration kAheadRetry = absl::Milliseconds(limits::cursor_ahead_retry_ms);
constexpr absl::Duration kStallNotice = absl::Milliseconds(limits::client_stall_notice_ms);

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* SubscriptionReactor::Start(
    grpc::CallbackServerContext* context, v1::SubscribeRequest request, const Lent& lent) {
  std::shared_ptr<SubscriptionReactor> reactor(
      new SubscriptionReactor(context, std::move(request), lent));
  reactor->self_ = reactor;
  lent.pool.Wake(reactor);
  return reactor.get();
}

SubscriptionReactor::SubscriptionReactor(grpc::CallbackServerContext* context,
                                         v1::SubscribeRequest request, const Lent& lent)
    : context_(context), request_(std::move(request)), lent_(lent), called_(absl::Now()) {}

void SubscriptionReactor::OnWriteDone(bool ok) {
  if (!ok) peer_gone_ = true;
  write_in_flight_ = false;
  lent_.pool.Wake(shared_from_this());
}

void SubscriptionReactor::OnCancel() {
  peer_gone_ = true;
  lent_.pool.Wake(shared_from_this());
}

void SubscriptionReactor::OnDone() { const auto last = std::move(self_); }

void SubscriptionReactor::OnNews() { lent_.pool.Wake(shared_from_this()); }

void SubscriptionReactor::Close(const ClosingOrder& order) {
  {
    const std::lock_guard lock(order_mutex_);
    if (!order_) order_ = order;
  }
  lent_.pool.Wake(shared_from_this());
}

absl::Time SubscriptionReactor::RunStep(absl::Time now) {
  if (finished_) return absl::InfiniteFuture();
  if (peer_gone_) {
    FinishWith(absl::CancelledError("the client is gone"));
    return absl::InfiniteFuture();
  }
  if (write_in_flight_) return WatchStall(now);
  if (stall_noted_) {
    stall_noted_ = false;
    facts_->SetStalledSince(std::nullopt);
  }
  if (!subscription_) {
    const auto again = Open(now);
    if (again) return *again;
    if (finished_) return absl::InfiniteFuture();
  }
  {
    const std::lock_guard lock(order_mutex_);
    if (order_ && !subscription_->closed()) EndWith(order_->why, order_->retry_after);
  }
  absl::Time again = absl::InfinitePast();
  if (outgoing_.empty()) again = Produce(now);
  if (finished_) return absl::InfiniteFuture();
  if (outgoing_.empty()) return again;
  SendNext(now);
  return now + kStallNotice;
}

std::optional<absl::Time> SubscriptionReactor::Open(absl::Time now) {
  const absl::Status status = OpenAt(now);
  if (status.ok()) return std::nullopt;
  if (ReasonOf(status) == reason::kCursorAhead && now < called_ + kAheadWait) {
    return now + kAheadRetry;
  }
  FinishWith(status);
  return std::nullopt;
}

absl::Status SubscriptionReactor::OpenAt(absl::Time now) {
  if (!plan_) {
    auto plan = CheckSubscribe(lent_.feeds, request_);
    if (!plan.ok()) return plan.status();
    plan_ = *std::move(plan);
    auto id = lent_.streams.Add({.feed = plan_->feed->name(),
                                 .label = request_.label(),
                                 .peer = context_->peer(),
                                 .opened = now,
                                 .stream = weak_from_this()},
                                facts_);
    if (!id.ok()) return id.status();
    stream_id_ = *id;
  }
  auto start = FindStart(*plan_, *facts_);
  if (!start.ok()) return start.status();
  start_ = *std::move(start);
  auto bound = StreamBound::Open(*plan_->feed, plan_->until,
                                 {.start = start_.boundary,
                                  .with_rows = start_.rows != nullptr,
                                  .on_news = [reader = weak_from_this()] {
                                    if (const auto waiting = reader.lock()) waiting->OnNews();
                                  }});
  if (!bound.ok()) return bound.status();
  bound_ = *std::move(bound);
  const store::FeedStore& store = plan_->feed->store();
  if (start_.rows) rows_ = std::make_unique<RowsPager>(std::move(start_.rows), plan_->filter);
  if (start_.log_below_rows_from) {
    rowless_filter_ = std::make_unique<RunFilter>(plan_->filter);
    rowless_filter_->RestrictTo(
        [&store](const v1::TableSchema& schema) { return !store.KeepsRows(schema); });
    LogPager::Options options;
    options.until = start_.boundary;
    options.part_bytes = part_bytes();
    options.shows_schema_changes = true;
    options.shows_gaps = true;
    log_below_rows_ = std::make_unique<LogPager>(store, *rowless_filter_,
                                                 *start_.log_below_rows_from, std::move(options));
  }
  subscription_.emplace(Subscription::Plan{.start = start_.boundary,
                                           .rows = rows_ != nullptr,
                                           .log_below_rows = log_below_rows_ != nullptr,
                                           .progress_period = plan_->progress_period});
  if (bound_->known()) subscription_->SetProof(bound_->known()->proof);
  return absl::OkStatus();
}

void SubscriptionReactor::UpdateBound() {
  if (bound_->Update()) subscription_->SetProof(bound_->known()->proof);
  if (bound_told_ || !bound_->known() || subscription_->state() == Subscription::State::kOpening) {
    return;
  }
  bound_told_ = true;
  v1::SubscribeResponse record;
  *record.mutable_bound() = bound_->Describe();
  Push(RecordMessage(record));
}

absl::Time SubscriptionReactor::Produce(absl::Time now) {
  using Step = Subscription::Step;
  absl::Status status;
  UpdateBound();
  switch (subscription_->Next(now)) {
    case Step::kSendOpened:
      SendOpened(now);
      break;
    case Step::kReadRows:
      status = ReadRows(now);
      break;
    case Step::kReadLogBelowRows:
      status = ReadLogBelowRows(now);
      break;
    case Step::kSendRowsEnd:
      SendRowsEnd(now);
      break;
    case Step::kReadLog:
      status = ReadLog(now);
      break;
    case Step::kTakeTail: {
      auto waits = TakeTail(now);
      if (waits.ok() && *waits) return subscription_->progress_due();
      status = waits.status();
      break;
    }
    case Step::kFinish:
      EndWith(absl::OkStatus(), absl::ZeroDuration());
      break;
    case Step::kSendProgress:
      SendProgress(now);
      break;
    case Step::kSendClosing:
      SendClosing();
      break;
    case Step::kEnd:
      FinishWith(ending_.why);
      break;
  }
  if (!status.ok()) {
    outgoing_.clear();
    EndWith(status, absl::ZeroDuration());
  }
  if (!finished_) UpdateFacts();
  return absl::InfinitePast();
}

void SubscriptionReactor::SendNext(absl::Time now) {
  in_flight_ = std::move(outgoing_.front());
  outgoing_.pop_front();
  facts_->AddSent(in_flight_.bytes.Length(), in_flight_.transactions);
  write_began_ = now;
  write_in_flight_ = true;
  StartWrite(&in_flight_.bytes);
}

absl::Time SubscriptionReactor::WatchStall(absl::Time now) {
  const absl::Duration waits = now - write_began_;
  if (waits < kStallNotice) return write_began_ + kStallNotice;
  const absl::Time limit = write_began_ + lent_.client_stall_timeout;
  if (now >= limit) {
    EndStalled(waits);
    return absl::InfiniteFuture();
  }
  if (!stall_noted_) {
    stall_noted_ = true;
    facts_->SetStalledSince(write_began_);
    Rest();
  }
  return limit;
}

// Neither Closing nor details pass what the client does not take; the code and the message of a
// cancellation do, ahead of it.
void SubscriptionReactor::EndStalled(absl::Duration waits) {
  const absl::Status why = ErrorWithReason(
      absl::StatusCode::kDeadlineExceeded, reason::kClientStalled,
      fmt::format("{}: the client took nothing for {} (client_stall_timeout); resume from the last "
                  "cursor",
                  reason::kClientStalled, absl::FormatDuration(waits)));
  grpc_call_cancel_with_status(context_->c_call(), GRPC_STATUS_DEADLINE_EXCEEDED,
                               std::string(why.message()).c_str(), nullptr);
  FinishWith(why);
}

void SubscriptionReactor::Rest() {
  if (log_) log_->Rest();
  if (log_below_rows_) log_below_rows_->Rest();
}

size_t SubscriptionReactor::page_bytes() const {
  // What stands alone comes on top of the target.
  const size_t room = plan_->message_bytes_max - limits::message_bytes_min;
  return std::clamp<size_t>(room, 1, limits::page_bytes_target);
}

size_t SubscriptionReactor::part_bytes() const {
  // A page is at most one part and one run larger than its target.
  const size_t room = plan_->message_bytes_max - limits::message_bytes_min;
  return room > page_bytes() + limits::message_bytes_target ? limits::message_bytes_target : 1;
}

void SubscriptionReactor::SendOpened(absl::Time now) {
  Push(RecordMessage(OpenedRecord(*plan_->feed, {.start = start_.boundary,
                                                 .rows_follow = rows_ != nullptr,
                                                 .rows_before_log = start_.rows_before_log,
                                                 .message_bytes_max = plan_->message_bytes_max,
                                                 .progress_period = plan_->progress_period,
                                                 .server_version = lent_.server_version})));
  subscription_->OpenedSent(now);
}

absl::Status SubscriptionReactor::Announce(const std::vector<uint64_t>& schema_ids) {
  for (const uint64_t id : schema_ids) {
    if (announced_.count(id) > 0) continue;
    auto wanted = plan_->filter.WantsSchema(id);
    if (!wanted.ok()) return wanted.status();
    if (!*wanted) continue;
    auto schema = plan_->feed->store().Schema(id);
    if (!schema.ok()) return schema.status();
    v1::SubscribeResponse record;
    *record.mutable_table_schema() = *std::move(schema);
    Push(RecordMessage(record));
    announced_.insert(id);
  }
  return absl::OkStatus();
}

absl::Status SubscriptionReactor::ReadRows(absl::Time now) {
  auto page = rows_->Next(page_bytes());
  if (!page.ok()) return page.status();
  const bool sent = !page->rows.empty();
  if (sent) {
    if (auto status = Announce({page->schema_id}); !status.ok()) return status;
    Push(RowsMessage(std::move(page->rows)));
  }
  subscription_->RowsRead(page->at_end, sent, now);
  if (page->at_end) rows_.reset();
  return absl::OkStatus();
}

absl::Status SubscriptionReactor::PushPage(LogPage page) {
  for (LogPageHead& head : page.heads) {
    if (!head.batch.empty()) {
      if (auto status = Announce(head.schema_ids); !status.ok()) return status;
      Push(BatchMessage(std::move(head.batch), head.transactions));
    }
    if (const auto* gap = std::get_if<store::Gap>(&head.then)) {
      Push(RecordMessage(GapNotice(*plan_->feed, *gap, subscription_->boundary().has_value())));
      continue;
    }
    auto status = PushSchemaChange(std::get<store::SchemaTransition>(head.then));
    if (!status.ok()) return status;
  }
  if (page.batch.empty()) return absl::OkStatus();
  if (auto status = Announce(page.schema_ids); !status.ok()) return status;
  Push(BatchMessage(std::move(page.batch), page.transactions));
  return absl::OkStatus();
}

absl::Status SubscriptionReactor::PushSchemaChange(const store::SchemaTransition& step) {
  // Both, so that a client which has seen neither can tell what changed.
  if (auto status = Announce({step.before}); !status.ok()) return status;
  auto after = plan_->feed->store().Schema(step.after);
  if (!after.ok()) return after.status();
  Push(RecordMessage(SchemaChangeRecord(step, *after)));
  return Announce({step.after});
}

bool SubscriptionReactor::PushGaps(const Position& after, const Position& upto) {
  const std::vector<store::Gap> gaps = plan_->feed->store().GapsBetween(after, upto);
  for (const store::Gap& gap : gaps) {
    Push(RecordMessage(GapNotice(*plan_->feed, gap, subscription_->boundary().has_value())));
  }
  return !gaps.empty();
}

absl::Status SubscriptionReactor::ReadLogBelowRows(absl::Time now) {
  auto page = log_below_rows_->Next(page_bytes());
  if (!page.ok()) return page.status();
  const bool at_end = page->at_end;
  bool sent = !page->empty();
  const Position upto = page->upto;
  if (auto status = PushPage(*std::move(page)); !status.ok()) return status;
  if (at_end) sent = PushGaps(upto, start_.boundary) || sent;
  subscription_->LogBelowRowsRead(at_end, sent, now);
  if (at_end) log_below_rows_.reset();
  return absl::OkStatus();
}

void SubscriptionReactor::SendRowsEnd(absl::Time now) {
  Push(RecordMessage(RowsEndRecord(*plan_->feed, start_.boundary)));
  subscription_->RowsEndSent(now);
  // What was written while the rows were sent is still to be read, however short retention is.
  keep_until_ = plan_->feed->tail().head();
  facts_->SetKeepFrom(start_.boundary);
}

void SubscriptionReactor::ReleaseLog() {
  if (!keep_until_) return;
  const auto boundary = subscription_->boundary();
  if (boundary && *boundary >= *keep_until_) {
    keep_until_.reset();
    facts_->SetKeepFrom(std::nullopt);
  } else {
    facts_->SetKeepFrom(boundary);
  }
}

absl::Status SubscriptionReactor::ReadLog(absl::Time now) {
  const Feed& feed = *plan_->feed;
  const Position boundary = *subscription_->boundary();
  if (!log_ || (!log_->inside() && log_->upto() < boundary)) {
    LogPager::Options options;
    options.cursor_of = [&feed](const Position& position) { return feed.Cursor(position); };
    options.part_bytes = part_bytes();
    options.shows_schema_changes = true;
    options.shows_gaps = true;
    options.until = log_until_ = bound_->limit().position;
    options.commit_time_us_max = bound_->limit().commit_time_us_max;
    log_ = std::make_unique<LogPager>(feed.store(), plan_->filter, boundary, std::move(options));
  }
  const Position proved = feed.tail().proved();
  Position head = feed.tail().head();
  if (log_until_) head = ClipToGeneration(feed.store(), std::min(head, *log_until_));
  auto page = log_->Next(page_bytes());
  if (!page.ok()) return page.status();
  bool sent = !page->empty();
  const bool at_end = page->at_end;
  const Position upto = page->upto;
  behind_bytes_ += page->batch.size();
  const std::optional<Position> too_late = page->too_late;
  if (auto status = PushPage(*std::move(page)); !status.ok()) return status;
  if (too_late) {
    bound_->TooLateAt(*too_late);
    sent = PushGaps(upto, bound_->known()->until) || sent;
    subscription_->LogRead(bound_->known()->until, std::nullopt, sent, now);
    subscription_->EndSeen();
    return absl::OkStatus();
  }
  if (at_end) sent = PushGaps(upto, head) || sent;
  subscription_->LogRead(upto, at_end ? std::optional(head) : std::nullopt, sent, now);
  if (at_end) {
    // Meanwhile more may be allowed than this page was read for.
    if (log_until_ == bound_->limit().position) {
      // What is on its way first: with an error, it would not be sent.
      if (outgoing_.empty()) {
        if (auto status = bound_->CheckProvable(); !status.ok()) return status;
      }
      subscription_->EverythingTaken(bound_->ProvedHere(proved));
    }
    log_.reset();
    Follow(true);
  } else if (behind_bytes_ > limits::ring_bytes_max) {
    Follow(false);
  }
  ReleaseLog();
  return absl::OkStatus();
}

void SubscriptionReactor::Follow(bool follow) {
  behind_bytes_ = 0;
  if (follow == following_) return;
  following_ = follow;
  if (follow) {
    plan_->feed->tail().Follow();
  } else {
    plan_->feed->tail().Unfollow();
  }
}

absl::StatusOr<bool> SubscriptionReactor::TakeTail(absl::Time now) {
  TailHub& tail = plan_->feed->tail();
  TailTaken taken = tail.Take(*subscription_->boundary(), page_bytes(), bound_->limit());
  switch (taken.kind) {
    case TailTaken::Kind::kBehind:
      subscription_->FellBehind();
      return false;
    case TailTaken::Kind::kInStore:
      subscription_->TailInStore(taken.upto);
      return false;
    case TailTaken::Kind::kCaughtUp:
      if (bound_->limit().position) {
        taken.upto = ClipToGeneration(plan_->feed->store(), taken.upto);
      }
      subscription_->TailTaken(taken.upto, true, false, now);
      if (auto status = bound_->CheckProvable(); !status.ok()) return status;
      subscription_->EverythingTaken(bound_->ProvedHere(taken.proved));
      ReleaseLog();
      if (subscription_->Next(now) != Subscription::Step::kTakeTail) return false;
      return tail.Wait(taken.upto, shared_from_this(),
                       bound_->known() ? std::optional(bound_->known()->proof) : std::nullopt);
    case TailTaken::Kind::kTooLate:
      bound_->TooLateAt(taken.upto);
      subscription_->TailTaken(bound_->known()->until, false, false, now);
      subscription_->EndSeen();
      return false;
    case TailTaken::Kind::kSpans:
      break;
  }
  // What is shared is not cut: where a schema changes, each stream reads the log for itself.
  if (!plan_->feed->store().SchemaTransitions(*subscription_->boundary(), taken.upto).empty()) {
    subscription_->TailInStore(taken.upto);
    return false;
  }
  auto sent = SendSpans(taken.spans);
  if (!sent.ok()) return sent;
  subscription_->TailTaken(taken.upto, false, *sent, now);
  ReleaseLog();
  return false;
}

absl::StatusOr<bool> SubscriptionReactor::SendSpans(const std::vector<TailSpan>& spans) {
  if (!plan_->filter.passes_everything()) {
    auto cut = CutSpans(spans, plan_->filter);
    if (!cut.ok()) return cut.status();
    if (cut->batch.empty()) return false;
    if (auto status = Announce(cut->schema_ids); !status.ok()) return status;
    Push(BatchMessage(std::move(cut->batch), cut->transactions));
    return true;
  }
  std::vector<grpc::Slice> pieces;
  uint64_t transactions = 0;
  for (const TailSpan& span : spans) {
    if (auto status = Announce(span.chunk->schema_ids); !status.ok()) return status;
    pieces.push_back(span.bytes());
    transactions += span.last - span.first;
  }
  Push(BatchMessage(std::move(pieces), transactions));
  return true;
}

void SubscriptionReactor::SendProgress(absl::Time now) {
  Push(RecordMessage(
      ProgressRecord(*plan_->feed, subscription_->boundary(), subscription_->caught_up(), now)));
  subscription_->ProgressSent(now);
}

void SubscriptionReactor::SendClosing() {
  Push(RecordMessage(ClosingRecord(*plan_->feed, subscription_->boundary(), ending_)));
  subscription_->ClosingSent();
}

void SubscriptionReactor::EndWith(const absl::Status& why, absl::Duration retry_after) {
  if (subscription_->state() == Subscription::State::kClosing || subscription_->closed()) return;
  ending_ = {why, retry_after};
  subscription_->Close();
}

void SubscriptionReactor::UpdateFacts() {
  const bool live = subscription_->state() == Subscription::State::kLive;
  facts_->SetDelivered(subscription_->boundary().value_or(Position()),
                       live ? v1::FEED_STATE_LIVE : v1::FEED_STATE_CATCHING_UP);
}

void SubscriptionReactor::FinishWith(const absl::Status& status) {
  finished_ = true;
  if (subscription_) subscription_->PeerGone();
  if (plan_) {
    Follow(false);
    plan_->feed->tail().StopWaiting(this);
  }
  if (stream_id_ != 0) lent_.streams.Remove(stream_id_);
  // Readers must be gone before the store is.
  rows_.reset();
  bound_.reset();
  start_.rows.reset();
  log_.reset();
  log_below_rows_.reset();
  outgoing_.clear();
  Finish(ToGrpcStatus(status));
}

}  // namespace tidemark
