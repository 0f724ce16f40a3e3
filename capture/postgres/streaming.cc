#include "capture/postgres/streaming.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

absl::Status ProtocolError(const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol, message);
}

uint64_t OneChange(const RowShape&) { return 1; }

}  // namespace

Streaming::Streaming(uint32_t generation, Lsn start, const TableSelection* selection,
                     GapPolicyOf gaps, CatalogProvider catalog, InProgressSpool* in_progress)
    : generation_(generation),
      catalog_(std::move(catalog)),
      relations_(selection, std::move(gaps)),
      in_progress_(in_progress),
      proved_(start),
      heard_(start) {}

bool Streaming::TakeReplyRequest() { return std::exchange(reply_requested_, false); }

absl::Status Streaming::OnFrame(std::string_view frame, std::vector<SourceEvent>* events) {
  if (finished_) return absl::OkStatus();
  absl::StatusOr<ReplicationMessage> message = ParseReplicationMessage(frame);
  if (!message.ok()) return message.status();
  if (const auto* keepalive = std::get_if<Keepalive>(&*message)) {
    OnKeepalive(*keepalive, events);
    return absl::OkStatus();
  }
  const std::string_view payload = std::get<XLogData>(*message).payload;
  absl::StatusOr<PgoutputMessage> decoded = decoder_.Decode(payload);
  if (!decoded.ok()) return decoded.status();
  sent_ = ++received_;
  return segment_of_ ? OnItem(*decoded, payload) : OnMessage(*decoded, events);
}

absl::Status Streaming::OnMessage(const PgoutputMessage& message,
                                  std::vector<SourceEvent>* events) {
  absl::Status status = std::visit(
      Overloaded{
          [&](const BeginMessage& begin) { return OnBegin(begin, events); },
          [&](const CommitMessage& commit) { return OnCommit(commit, events); },
          [&](const RelationMessage& relation) { return OnRelation(relation, events); },
          [&](const InsertMessage& insert) {
            return OnRow(
                insert.relation, {insert.row, {}}, OneChange,
                [&](const RowShape& shape, TransactionBuilder* builder) {
                  return encoder_.AddInsert(shape, insert, builder);
                },
                events);
          },
          [&](const UpdateMessage& update) {
            return OnRow(
                update.relation, {update.row, update.old_row},
                [&](const RowShape& shape) { return RowEncoder::ChangesOf(shape, update); },
                [&](const RowShape& shape, TransactionBuilder* builder) {
                  return encoder_.AddUpdate(shape, update, builder);
                },
                events);
          },
          [&](const DeleteMessage& removal) {
            return OnRow(
                removal.relation, {removal.old_row, {}}, OneChange,
                [&](const RowShape& shape, TransactionBuilder* builder) {
                  return encoder_.AddDelete(shape, removal, builder);
                },
                events);
          },
          [&](const TruncateMessage& truncate) { return OnTruncate(truncate, events); },
          // Types are read from the catalog; where a change was replicated from, and
          // messages of applications, are no changes of rows (E10).
          [&](const TypeMessage&) { return absl::OkStatus(); },
          [&](const OriginMessage&) { return absl::OkStatus(); },
          [&](const LogicalMessage&) { return absl::OkStatus(); },
          [&](const StreamStartMessage& start) { return OnStreamStart(start); },
          [&](const StreamAbortMessage& abort) { return OnStreamAbort(abort); },
          [&](const StreamCommitMessage& committed) { return OnStreamCommit(committed, events); },
          // The end of a segment, within which nothing else is read here.
          [&](const StreamStopMessage&) { return absl::OkStatus(); },
      },
      message);
  if (status.ok() && in_transaction_ && builder_.PassesBound()) HandOverFullRuns(events);
  if (unseen_ != nullptr && unseen_->full()) {
    events->push_back(LargePart{unseen_->subject().handle, unseen_->Take()});
  }
  return status;
}

void Streaming::OnKeepalive(const Keepalive& keepalive, std::vector<SourceEvent>* events) {
  heard_ = std::max(heard_, keepalive.end);
  reply_requested_ |= keepalive.reply_requested;
  if (segment_of_) return;
  if (stop_ && stop_->OnKeepalive(keepalive.end) == BoundDecision::kStop) {
    return Finish(stop_->bound(), stop_->resume(), events);
  }
  // Within a transaction it says nothing about that one; and nothing of those that are in progress,
  // which commit later, behind it (K2). The first keepalive of a session repeats the slot's
  // confirmed position (K3), which lies at or before ours.
  if (!in_transaction_) proved_ = std::max(proved_, keepalive.end);
}

absl::Status Streaming::OnBegin(const BeginMessage& begin, std::vector<SourceEvent>* events) {
  in_transaction_ = true;
  xid_ = begin.xid;
  commit_lsn_ = begin.commit_lsn;
  begun_time_us_ = begin.commit_time_us;
  handle_ = 0;
  parts_.clear();
  announced_ = announced_before_ = 0;
  builder_.Begin();
  if (unseen_ != nullptr) unseen_->Began(xid_);
  CheckBegun(events);
  if (selection_changed_) SelectAgain(events);
  return absl::OkStatus();
}

void Streaming::CheckBegun(std::vector<SourceEvent>* events) {
  if (stop_ && stop_->OnBegin(commit_lsn_) == BoundDecision::kStop) {
    return Finish(stop_->bound(), stop_->resume(), events);
  }
  // Commits come in order, so whatever ends at or before the beginning of this commit record was
  // handed over.
  if (stop_time_us_ && begun_time_us_ > *stop_time_us_) Finish(commit_lsn_, commit_lsn_, events);
}

void Streaming::StopAt(std::optional<Lsn> bound, std::optional<int64_t> time_us,
                       std::vector<SourceEvent>* events) {
  stop_.reset();
  if (bound) stop_.emplace(std::min(proved_, *bound), *bound);
  stop_time_us_ = time_us;
  if (in_transaction_) {
    CheckBegun(events);
  } else if (stop_ && stop_->reached()) {
    Finish(stop_->bound(), stop_->resume(), events);
  }
}

void Streaming::Finish(Lsn bound, Lsn resume, std::vector<SourceEvent>* events) {
  if (in_transaction_ && handle_ != 0) events->push_back(LargeAborted{handle_});
  replay_.reset();
  if (in_progress_ != nullptr) in_progress_->Clear();
  in_transaction_ = false;
  handle_ = 0;
  builder_.Begin();
  finished_ = bound;
  proved_ = resume;
}

absl::Status Streaming::OnCommit(const CommitMessage& commit, std::vector<SourceEvent>* events) {
  // The log is ordered by the END of commits; anything else would be stored out of order.
  if (commit.end_lsn <= proved_) {
    return ProtocolError(
        fmt::format("a transaction ends at {}, at or before {}, where everything "
                    "was sent already",
                    LsnText(commit.end_lsn), LsnText(proved_)));
  }
  BoundDecision decision = BoundDecision::kRelease;
  if (stop_) decision = stop_->OnCommit(commit.commit_lsn, commit.end_lsn);
  if (decision == BoundDecision::kStop) {
    Finish(stop_->bound(), stop_->resume(), events);
    return absl::OkStatus();
  }
  v1::CommitRecord record;
  record.set_commit_time_us(commit.commit_time_us);
  record.set_source_transaction_id(std::to_string(xid_));
  record.set_origin(v1::ORIGIN_SOURCE);
  record.set_commit_lsn(commit.commit_lsn);
  if (window_ != nullptr) window_->Committed(xid_);
  if (unseen_ != nullptr) unseen_->Committed();
  for (const auto& [root, part] : parts_) shapes_.PartStreamed(root, part, commit.commit_lsn);
  const Position position = Position::Of(generation_, commit.end_lsn);
  EncodedTransaction transaction = builder_.Finish(position, std::move(record));
  if (handle_ != 0) {
    if (!transaction.runs.empty()) {
      events->push_back(LargePart{handle_, std::move(transaction.runs)});
    }
    events->push_back(LargeCommitted{handle_, position, std::move(transaction.record)});
  } else if (!transaction.runs.empty()) {
    events->push_back(TransactionRead{std::move(transaction)});
  }
  in_transaction_ = false;
  proved_ = commit.end_lsn;
  heard_ = std::max(heard_, commit.end_lsn);
  newest_commit_us_ = std::max(newest_commit_us_, commit.commit_time_us);
  if (decision == BoundDecision::kReleaseAndStop) Finish(stop_->bound(), stop_->resume(), events);
  return absl::OkStatus();
}

absl::Status Streaming::OnRelation(const RelationMessage& message,
                                   std::vector<SourceEvent>* events) {
  announced_before_ = std::exchange(announced_, message.oid);
  return Apply({sent_, DescriptionOf(message)}, events);
}

absl::Status Streaming::Apply(Announcement announcement, std::vector<SourceEvent>* events) {
  last_relation_ = nullptr;
  const uint32_t oid = announcement.description.oid;
  absl::StatusOr<Connection*> catalog = catalog_();
  if (!catalog.ok()) return catalog.status();
  const Relation* known = relations_.Find(oid);
  const uint64_t before = known == nullptr ? 0 : known->schema.schema_id();
  announcements_.Applied(announcement.sent, oid, known == nullptr ? nullptr : &known->description);
  absl::StatusOr<const Relation*> relation =
      relations_.Put(std::move(announcement.description), *catalog, known_);
  if (!relation.ok()) return relation.status();
  const RelationDescription& now = (*relation)->description;
  const bool same_name = now.schema_name == watched_.schema && now.table_name == watched_.table;
  if (watched_.oid != 0 && oid == watched_.oid) watched_announced_ = true;
  // Another table took its name.
  if (watched_.oid != 0 && oid != watched_.oid && same_name) window_->Spoil();
  if (unseen_ != nullptr) unseen_->Announced(now);
  shapes_.Announced(now, commit_lsn_);
  Announce(**relation, before, events);
  return absl::OkStatus();
}

void Streaming::NoteAnnounced(const RelationDescription& root) {
  if (announced_before_ == root.oid) {
    parts_.push_back({{root.schema_name, root.table_name}, announced_});
  }
  announced_ = announced_before_ = 0;
}

void Streaming::Observe(ChunkWindow* window, MovedRows* moved, UnseenChanges* unseen,
                        const KnownRows* known) {
  window_ = window;
  moved_ = moved;
  unseen_ = unseen;
  known_ = known;
  watched_ = {};
}

void Streaming::Watch(Watched watched) {
  watched_ = std::move(watched);
  watched_announced_ = false;
}

bool Streaming::AgreesWith(const Relation& relation) const {
  if (!watched_announced_) return true;
  const Relation* streamed = relations_.Find(watched_.oid);
  return streamed != nullptr && streamed->schema.schema_id() == relation.schema.schema_id();
}

void Streaming::SelectAgain(std::vector<SourceEvent>* events) {
  selection_changed_ = false;
  for (const Relation* relation : relations_.SelectAgain()) {
    events->push_back(SchemaSeen{relation->schema});
  }
}

void Streaming::Announce(const Relation& relation, uint64_t schema_before,
                         std::vector<SourceEvent>* events) {
  if (!relation.captured) return;
  events->push_back(SchemaSeen{relation.schema});
  if (schema_before != relation.schema.schema_id()) builder_.CutRunOf(schema_before);
}

absl::StatusOr<const Relation*> Streaming::Known(uint32_t oid, std::vector<SourceEvent>* events) {
  if (last_relation_ != nullptr && last_oid_ == oid) return last_relation_;
  if (std::optional<Announcement> held = announcements_.Take(oid)) {
    if (absl::Status status = Apply(*std::move(held), events); !status.ok()) return status;
  }
  last_relation_ = relations_.Find(oid);
  last_oid_ = oid;
  if (last_relation_ != nullptr) return last_relation_;
  return ProtocolError(fmt::format("a change names relation {}, which was not announced", oid));
}

absl::Status Streaming::OnRow(uint32_t oid, const RowTuples& tuples,
                              const std::function<uint64_t(const RowShape&)>& skipped,
                              const AddChange& add, std::vector<SourceEvent>* events) {
  absl::StatusOr<const Relation*> relation = Known(oid, events);
  if (!relation.ok()) return relation.status();
  if (announced_ != 0) NoteAnnounced((*relation)->description);
  if (oid == watched_.oid) {
    TouchWindow(**relation, tuples, watched_.rows_known, *known_, *moved_, &encoder_, window_);
  }
  if (moved_ != nullptr && moved_->WatchesAny() && !tuples.old_row.empty()) {
    NoteMove(**relation, tuples, moved_);
  }
  if (!(*relation)->captured) {
    builder_.SkipChanges(skipped((*relation)->shape));
    return absl::OkStatus();
  }
  absl::Status added = add((*relation)->shape, &builder_);
  if (!added.ok()) added = AddUnderOtherTypes(**relation, add, events);
  if (added.ok() && unseen_ != nullptr && unseen_->Counts(oid)) {
    AddUnseen(*relations_.Find(oid), add);
  }
  return added;
}

void Streaming::AddUnseen(const Relation& relation, const AddChange& add) {
  TransactionBuilder* builder = unseen_->Changes(relation);
  if (builder == nullptr || add(relation.shape, builder).ok()) return;
  if (!AddAsCompositeText(relation.shape, add, builder).ok()) unseen_->Unreadable();
}

absl::Status Streaming::AddUnderOtherTypes(const Relation& relation, const AddChange& add,
                                           std::vector<SourceEvent>* events) {
  // Nothing was added. A type may have changed without a word. What was read when the commit was in
  // the log already says all that the catalog can say of it.
  const Relation* now = &relation;
  if (relation.types_read_at <= commit_lsn_) {
    absl::StatusOr<Connection*> catalog = catalog_();
    if (!catalog.ok()) return catalog.status();
    const uint64_t before = relation.schema.schema_id();
    last_relation_ = nullptr;
    absl::StatusOr<const Relation*> again =
        relations_.ReadAgain(relation.description.oid, *catalog);
    if (!again.ok()) return again.status();
    now = *again;
    Announce(*now, before, events);
    if (add(now->shape, &builder_).ok()) return absl::OkStatus();
  }
  return AddAsCompositeText(now->shape, add, &builder_);
}

absl::Status Streaming::AddAsCompositeText(const RowShape& shape, const AddChange& add,
                                           TransactionBuilder* builder) {
  encoder_.AllowCompositeText(true);
  const absl::Status added = add(shape, builder);
  encoder_.AllowCompositeText(false);
  return added;
}

absl::Status Streaming::OnTruncate(const TruncateMessage& truncate,
                                   std::vector<SourceEvent>* events) {
  // It announces every table that it names, and no partition.
  announced_ = announced_before_ = 0;
  for (uint32_t oid : truncate.relations) {
    absl::StatusOr<const Relation*> relation = Known(oid, events);
    if (!relation.ok()) return relation.status();
    if (oid == watched_.oid) window_->Spoil();
    if (!(*relation)->captured) {
      builder_.SkipChanges(1);
      continue;
    }
    encoder_.AddTruncate((*relation)->shape, &builder_);
    TransactionBuilder* unseen = unseen_ == nullptr ? nullptr : unseen_->Changes(**relation);
    if (unseen != nullptr) encoder_.AddTruncate((*relation)->shape, unseen);
  }
  return absl::OkStatus();
}

void Streaming::HandOverFullRuns(std::vector<SourceEvent>* events) {
  std::vector<EncodedRun> runs = builder_.TakeFullRuns();
  if (runs.empty()) return;
  if (handle_ == 0) handle_ = next_handle_++;
  events->push_back(LargePart{handle_, std::move(runs)});
}

}  // namespace tidemark::capture::postgres
