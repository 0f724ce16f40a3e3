// Streaming: transactions that the server sends while they are in progress. What comes of them is
// held, and touches nothing; at its commit it is read as if it came then, between a Begin and a
// Commit, without what was rolled back.
#include <fmt/format.h>

#include <utility>
#include <variant>

#include "capture/postgres/streaming.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

absl::Status ProtocolError(const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol, message);
}

// The subtransaction of an item of a segment; 0: it has none.
uint32_t XidOf(const PgoutputMessage& message) {
  return std::visit(
      [](const auto& body) -> uint32_t {
        if constexpr (requires { body.xid; }) return body.xid;
        return 0;
      },
      message);
}

// Of a change of a row; 0: it is none.
uint32_t TableOfRow(const PgoutputMessage& message) {
  return std::visit(
      [](const auto& body) -> uint32_t {
        if constexpr (requires { body.relation; }) return body.relation;
        return 0;
      },
      message);
}

}  // namespace

absl::Status Streaming::OnStreamStart(const StreamStartMessage& start) {
  if (in_progress_ == nullptr) {
    return ProtocolError("the server streams transactions in progress, which was not asked for");
  }
  if (start.first_segment == in_progress_->Has(start.xid)) {
    return ProtocolError(fmt::format("a segment of transaction {} is {}the first one, and {} came",
                                     start.xid, start.first_segment ? "" : "not ",
                                     start.first_segment ? "others" : "none"));
  }
  segment_of_ = start.xid;
  return start.first_segment ? in_progress_->Begin(start.xid) : absl::OkStatus();
}

absl::Status Streaming::OnItem(const PgoutputMessage& message, std::string_view payload) {
  if (std::holds_alternative<StreamStopMessage>(message)) {
    segment_of_.reset();
    return absl::OkStatus();
  }
  return in_progress_->Add(*segment_of_, sent_, payload);
}

absl::Status Streaming::OnStreamAbort(const StreamAbortMessage& abort) {
  // Also comes unasked, of what was never sent (reported of PostgreSQL 18).
  if (in_progress_ == nullptr || !in_progress_->Has(abort.xid)) return absl::OkStatus();
  if (abort.subtransaction_xid != abort.xid) {
    return in_progress_->AbortSubtransaction(abort.xid, abort.subtransaction_xid);
  }
  in_progress_->RolledBack(abort.xid);
  return absl::OkStatus();
}

absl::Status Streaming::OnStreamCommit(const StreamCommitMessage& commit,
                                       std::vector<SourceEvent>* events) {
  if (in_progress_ == nullptr || !in_progress_->Has(commit.xid)) {
    return ProtocolError(
        fmt::format("transaction {} commits, of which nothing was sent", commit.xid));
  }
  replay_.emplace(Replayed{.commit = commit});
  announcements_.BeginReplay();
  last_relation_ = nullptr;
  // It may end what is read, and the replay with it.
  return OnBegin({commit.commit.commit_lsn, commit.commit.commit_time_us, commit.xid}, events);
}

absl::StatusOr<size_t> Streaming::Replay(size_t bytes_max, std::vector<SourceEvent>* events) {
  size_t bytes = 0;
  while (bytes < bytes_max) {
    absl::StatusOr<std::optional<InProgressSpool::Message>> message =
        in_progress_->Next(replay_->commit.xid);
    if (!message.ok()) return message.status();
    if (!*message) {
      if (absl::Status status = EndReplay(events); !status.ok()) return status;
      break;
    }
    bytes += (*message)->bytes.size();
    absl::Status status = ReplayMessage(**message, events);
    if (!status.ok()) return status;
  }
  return bytes;
}

absl::Status Streaming::ReplayMessage(const InProgressSpool::Message& message,
                                      std::vector<SourceEvent>* events) {
  absl::StatusOr<PgoutputMessage> decoded = replay_->decoder.Decode(message.bytes);
  if (!decoded.ok()) return decoded.status();
  sent_ = message.sent;
  if (!in_progress_->IsAborted(replay_->commit.xid, XidOf(*decoded))) {
    return OnMessage(*decoded, events);
  }
  PassOver(*decoded);
  return absl::OkStatus();
}

void Streaming::PassOver(const PgoutputMessage& message) {
  if (const auto* relation = std::get_if<RelationMessage>(&message)) {
    announced_before_ = std::exchange(announced_, relation->oid);
    announcements_.HoldBack({sent_, DescriptionOf(*relation)});
    last_relation_ = nullptr;
  } else if (std::holds_alternative<TruncateMessage>(message)) {
    announced_ = announced_before_ = 0;
  } else if (const uint32_t oid = TableOfRow(message); oid != 0 && announced_ != 0) {
    // A partition that was announced before it is not announced again for rows that stay.
    const RelationDescription* root = announcements_.Find(oid);
    const Relation* known = relations_.Find(oid);
    if (root == nullptr && known != nullptr) root = &known->description;
    if (root != nullptr) NoteAnnounced(*root);
  }
}

absl::Status Streaming::EndReplay(std::vector<SourceEvent>* events) {
  const StreamCommitMessage commit = replay_->commit;
  in_progress_->Committed(commit.xid);
  replay_.reset();
  announcements_.EndReplay();
  last_relation_ = nullptr;
  return OnCommit(commit.commit, events);
}

}  // namespace tidemark::capture::postgres
