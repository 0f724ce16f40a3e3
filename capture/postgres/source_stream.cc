// PostgresSource: the stream.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/slot.h"
#include "capture/postgres/source.h"
#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

constexpr absl::Duration kKeeperReplyTimeout = absl::Seconds(1);
// How often a server is asked whether it has passed a fence that it had not at first.
constexpr absl::Duration kFenceAskPeriod = absl::Milliseconds(20);

}  // namespace

std::string PostgresSource::WhyAtCommit() const {
  if (!config_.postgres().stream_in_progress()) return "";
  if (server_.version < kInProgressVersionMin) {
    return fmt::format("the server is PostgreSQL {}, and it needs {}", server_.version / 10000,
                       kInProgressVersionMin / 10000);
  }
  return in_progress_.refusal();
}

absl::Status PostgresSource::StartStreaming() {
  const std::string why_at_commit = WhyAtCommit();
  streams_in_progress_ = config_.postgres().stream_in_progress() && why_at_commit.empty();
  in_progress_.Clear();
  if (streams_in_progress_) {
    // What it holds in memory before it sends is for those to say who run it.
    const auto reset = replication_->Query("RESET logical_decoding_work_mem", "preparing to stream",
                                           absl::Now() + kConnectTimeout);
    if (!reset.ok()) return reset.status();
  }
  // A double quote of the publication's list of names inside a single-quoted option.
  absl::Status started = replication_->StartCopy(
      fmt::format("START_REPLICATION SLOT {} LOGICAL {} ({}, publication_names {})",
                  QuoteIdentifier(slot_name_), LsnText(start_),
                  streams_in_progress_ ? "proto_version '2', streaming 'on'" : "proto_version '1'",
                  QuoteLiteral(QuoteIdentifier(publication_name_))),
      fmt::format("streaming from slot {}", slot_name_), absl::Now() + kConnectTimeout);
  if (!started.ok()) return started;
  const absl::Time now = absl::Now();
  streaming_.emplace(
      generation_, start_, &selection_,
      [this](const v1::TableSchema& schema) -> GapPolicy {
        const bool kept = KeepsRows(schema);
        return {kept,
                kept && MatchesAny(before_images_, schema.schema_name(), schema.table_name())};
      },
      [this] { return Catalog(absl::Now() + kConnectTimeout); },
      streams_in_progress_ ? &in_progress_ : nullptr);
  replies_.emplace(start_, server_.wal_sender_timeout, now);
  checkpoint_ = start_;
  progress_sent_ = now;
  progress_wanted_ = false;
  heard_ = now;
  silence_.emplace(silence_timeout_, now);
  read_ended_ = now;
  stop_changed_ = true;
  slot_facts_read_ = absl::InfinitePast();
  Enter(Phase::kStreaming,
        fmt::format(
            "streaming from {}{}{}", LsnText(start_),
            why_at_commit.empty() ? "" : "; stream_in_progress is not in force: ", why_at_commit));
  if (known_rows_ != nullptr) {
    tables_keeper_ =
        std::make_unique<TableKeeper>(TableKeeper::Lent{.publication = publication_name_,
                                                        .streaming = &*streaming_,
                                                        .selection = &selection_,
                                                        .desk = &desk_,
                                                        .known = known_rows_,
                                                        .states = &table_states_,
                                                        .look_period = catalog_period_},
                                      target_, [this] { nudge_.Raise(); });
  }
  keeper_ = std::make_unique<StandbyKeeper>(&session_mutex_, replies_->period() / 2, [this] {
    const absl::Time late = absl::Now();
    // Its errors are met again by the next Read.
    if (replies_->NextDue() <= late) (void)Reply(late, kKeeperReplyTimeout);
  });
  return absl::OkStatus();
}

absl::StatusOr<CaptureBatch> PostgresSource::ReadStream(absl::Time deadline) {
  silence_->NotListened(absl::Now() - read_ended_);
  absl::StatusOr<CaptureBatch> batch = ListenUntil(deadline);
  read_ended_ = absl::Now();
  return batch;
}

absl::StatusOr<CaptureBatch> PostgresSource::ListenUntil(absl::Time deadline) {
  CaptureBatch batch;
  ApplyStop(&batch.events);
  absl::StatusOr<bool> stepped = StepTables(&batch);
  if (!stepped.ok()) return stepped.status();
  if (*stepped) return batch;
  while (true) {
    absl::StatusOr<bool> more = TakeFrames(&batch);
    if (!more.ok()) return more.status();
    const absl::Time now = absl::Now();
    if (absl::Status status = CheckSilence(now); !status.ok()) return status;
    if (std::min({replies_->NextDue(), NextProbe(), FenceAskDue()}) <= now) {
      if (absl::Status status = Reply(now); !status.ok()) return status;
    }
    status_.Progress(streaming_->proved(), streaming_->heard(), streaming_->newest_commit_us(),
                     heard_);
    if (streams_in_progress_) status_.InProgress(in_progress_);
    RefreshSlotFacts(now);
    const bool finished = FinishBatch(now, &batch);
    if (finished || now >= deadline) return batch;
    // What is at hand does not wake anybody.
    if (TablesWait() || *more) return batch;
    absl::StatusOr<Connection::Wake> wake = replication_->Wait(NextWake(deadline), &nudge_);
    if (!wake.ok()) return wake.status();
    if (*wake == Connection::Wake::kInterrupted) return batch;
  }
}

absl::StatusOr<bool> PostgresSource::TakeFrames(CaptureBatch* batch) {
  size_t bytes = 0;
  size_t looked_at = 0;
  while (bytes < kBatchBytesMax && !streaming_->finished()) {
    absl::StatusOr<bool> taken = true;
    if (streaming_->replaying()) {
      absl::Status replayed = TakeReplayed(batch, kBatchBytesMax - bytes, &bytes);
      if (!replayed.ok()) return replayed;
    } else {
      taken = TakeFrame(batch, &bytes);
      if (!taken.ok()) return taken.status();
    }
    if (*taken) {
      if (bytes - looked_at < kQuietLookBytes || streaming_->in_transaction()) continue;
      looked_at = bytes;
      if (TablesWait()) break;
      continue;
    }
    // Nothing buffered; there may be more in the socket.
    absl::StatusOr<Connection::Wake> wake = replication_->Wait(absl::InfinitePast());
    if (!wake.ok()) return wake.status();
    if (*wake != Connection::Wake::kReadable) break;
    // A large message may be long on its way: the server is answered meanwhile.
    if (replies_->NextDue() <= absl::Now()) break;
  }
  if (replication_->TakeArrived()) {
    heard_ = absl::Now();
    silence_->Heard(heard_);
  }
  if (streaming_->TakeReplyRequest()) {
    replies_->Requested();
    // A server that asks may be waiting to shut down: what it proved is worth a sync at once.
    progress_wanted_ = true;
  }
  replies_->Heard(streaming_->heard());
  return bytes >= kBatchBytesMax;
}

absl::StatusOr<bool> PostgresSource::TakeFrame(CaptureBatch* batch, size_t* bytes) {
  std::string_view frame;
  absl::StatusOr<Connection::Copy> copy = replication_->NextCopy(&frame);
  if (!copy.ok()) return copy.status();
  if (*copy == Connection::Copy::kEnd) {
    return ErrorWithReason(
        absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
        fmt::format("the server ended the stream of slot {} (it is shutting down, or the session "
                    "was ended); it is tried again",
                    slot_name_));
  }
  if (*copy != Connection::Copy::kData) return false;
  *bytes += frame.size();
  absl::Status status = streaming_->OnFrame(frame, &batch->events);
  if (!status.ok()) return StreamError(std::move(status));
  return true;
}

absl::Status PostgresSource::TakeReplayed(CaptureBatch* batch, size_t bytes_max, size_t* bytes) {
  const absl::Time began = absl::Now();
  absl::StatusOr<size_t> replayed = streaming_->Replay(bytes_max, &batch->events);
  // What the server says meanwhile waits to be read.
  silence_->NotListened(absl::Now() - began);
  if (!replayed.ok()) return StreamError(replayed.status());
  *bytes += *replayed;
  return absl::OkStatus();
}

absl::Status PostgresSource::StreamError(absl::Status status) const {
  if (!streams_in_progress_ || in_progress_.refusal().empty()) return status;
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
      fmt::format(
          "stream_in_progress is given up until Tidemark is restarted: {}. Nothing is lost: "
          "the stream begins again, and transactions come at their commit",
          in_progress_.refusal()));
}

// What is done between two transactions must not wait until the stream rests: where it never does,
// batches end within transactions alone.
bool PostgresSource::TablesWait() const {
  return tables_keeper_ != nullptr && tables_keeper_->Ready(streaming_->proved(), absl::Now());
}

absl::Status PostgresSource::Reply(absl::Time now, absl::Duration timeout) {
  const bool probes = NextProbe() <= now;
  const bool ask = probes || std::min(silence_->ask_due(), FenceAskDue()) <= now;
  if (ask) {
    fence_asked_ = now;
    if (tables_keeper_ != nullptr) asked_for_ = tables_keeper_->fence().value_or(asked_for_);
  }
  // Who asks for a proof again and again must not put off the end of a silence.
  if (silence_->ask_due() <= now) silence_->Asked(now);
  if (probes) probe_.Asked(now);
  return replication_->SendCopy(EncodeStandbyStatus(replies_->Take(now, ask)), now + timeout);
}

absl::Status PostgresSource::CheckSilence(absl::Time now) {
  if (silence_->give_up_due() <= now) {
    return ErrorWithReason(
        absl::StatusCode::kUnavailable, reason::kSourceSilent,
        fmt::format("no sign of life from {} for {:.0f} s (silence_timeout), though it was asked "
                    "for one; it is tried again",
                    target_.Text(), absl::ToDoubleSeconds(silence_->Lasted(now))));
  }
  if (silence_->ask_due() <= now) return Reply(now);
  return absl::OkStatus();
}

// A server that has nothing to send is asked how far it is (K5).
absl::Time PostgresSource::FenceAskDue() const {
  if (tables_keeper_ == nullptr || !streaming_->between_transactions()) {
    return absl::InfiniteFuture();
  }
  const std::optional<Lsn> fence = tables_keeper_->fence();
  if (!fence || *fence <= streaming_->proved()) return absl::InfiniteFuture();
  return *fence > asked_for_ ? absl::InfinitePast() : fence_asked_ + kFenceAskPeriod;
}

// The checkpoint of what was finished. True when the batch is worth returning.
bool PostgresSource::FinishBatch(absl::Time now, CaptureBatch* batch) {
  const Lsn proved = streaming_->proved();
  if (streaming_->finished()) {
    checkpoint_ = proved;
    // What was made there stands behind what was captured.
    head_ = std::max(head_, Position::Of(generation_, proved));
    batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
    if (tables_keeper_ != nullptr) tables_keeper_->AddStates(batch);
    batch->finished = Position::Of(generation_, *streaming_->finished());
    return true;
  }
  const bool due = progress_wanted_ || probe_.HasNews(proved, checkpoint_) ||
                   now - progress_sent_ >= kProgressPeriod;
  if (proved > checkpoint_ && (due || !batch->events.empty())) {
    checkpoint_ = proved;
    progress_sent_ = now;
    progress_wanted_ = false;
    head_ = Position::Of(generation_, proved);
    batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
    if (tables_keeper_ != nullptr) tables_keeper_->AddStates(batch);
  }
  return !batch->events.empty() || batch->checkpoint.has_value();
}

// A transaction in flight says itself where it ends.
absl::Time PostgresSource::NextProbe() const {
  return streaming_->between_transactions() ? probe_.NextDue(streaming_->proved())
                                            : absl::InfiniteFuture();
}

absl::Time PostgresSource::NextWake(absl::Time deadline) const {
  absl::Time next = std::min({deadline, replies_->NextDue(), NextProbe(), FenceAskDue()});
  if (tables_keeper_ != nullptr) next = std::min(next, tables_keeper_->next_due());
  next = std::min({next, silence_->ask_due(), silence_->give_up_due()});
  next = std::min(next, slot_facts_read_ + kSlotFactsPeriod);
  if (streaming_->proved() > checkpoint_) next = std::min(next, progress_sent_ + kProgressPeriod);
  return next;
}

void PostgresSource::RefreshSlotFacts(absl::Time now) {
  if (now - slot_facts_read_ < kSlotFactsPeriod) return;
  slot_facts_read_ = now;
  absl::StatusOr<Connection*> catalog = Catalog(now + kSlotFactsTimeout);
  if (!catalog.ok()) return;
  absl::StatusOr<std::optional<SlotFacts>> slot =
      ReadSlot(*catalog, slot_name_, now + kSlotFactsTimeout);
  // The stream itself tells when the server is gone; this session is made anew at the next turn.
  if (!slot.ok()) {
    catalog_.reset();
  } else if (*slot) {
    status_.Slot(**slot, now);
  }
}

}  // namespace tidemark::capture::postgres
