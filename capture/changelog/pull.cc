#include "capture/changelog/pull.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

using postgres::Connection;
using postgres::ResultRows;

// The list and the rows are of one snapshot.
absl::Status Disagree(const ListedTransaction& transaction, uint64_t rows) {
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol,
      fmt::format("transaction {} of the changelog was listed with {} rows, and {} were read under "
                  "the same snapshot; an index may be damaged: REINDEX TABLE",
                  transaction.xid, transaction.rows, rows));
}

}  // namespace

Pull::Pull(Connection* session, const Statements& statements, const Settings& settings,
           postgres::Interruption* nudge)
    : session_(session), statements_(statements), settings_(settings), nudge_(nudge) {}

absl::StatusOr<PullBegun> Pull::Begin(absl::Time deadline) {
  const absl::StatusOr<ResultRows> rows =
      session_->Query(statements_.Begin(), "beginning a pull of the changelog", deadline);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return absl::InternalError("no row says what the snapshot is");
  table_oid_ = static_cast<uint32_t>(rows->Number(0, 3));
  return PullBegun{.snapshot = rows->Text(0, 0),
                   .highest_seq = rows->Number(0, 2),
                   .clock_us = static_cast<int64_t>(rows->Number(0, 1))};
}

absl::Status Pull::List(const PullScope& scope) {
  state_ = State::kListing;
  asked_ = absl::Now();
  return session_->Send(statements_.List(scope, kWindowTransactionsMax),
                        "listing the transactions of the changelog");
}

absl::Status Pull::CheckSilence(absl::Duration most) const {
  const absl::Duration silent = absl::Now() - asked_;
  if (silent < most) return absl::OkStatus();
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kSourceSilent,
      fmt::format("reading the changelog: no answer within {:.1f} s; it is tried again",
                  absl::ToDoubleSeconds(silent)));
}

absl::Status Pull::TakeList(const ResultRows& rows) {
  listed_.clear();
  at_ = 0;
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    listed_.push_back(
        {.xid = rows.Number(i, 0), .last_seq = rows.Number(i, 1), .rows = rows.Number(i, 2)});
  }
  if (!total_) total_ = rows.empty() ? 0 : rows.Number(0, 3);
  list_ended_ = listed_.size() < kWindowTransactionsMax;
  state_ = State::kPaging;
  return absl::OkStatus();
}

absl::Status Pull::AwaitList(absl::Time deadline) {
  if (state_ != State::kListing) return absl::OkStatus();
  const absl::StatusOr<std::optional<ResultRows>> rows = session_->Collect(deadline);
  if (!rows.ok()) return rows.status();
  return rows->has_value() ? TakeList(**rows) : CheckSilence(kListTimeout);
}

absl::StatusOr<Pull::Step> Pull::Next(absl::Time deadline) {
  if (ended_it_) {
    ended_it_ = false;
    ++at_;
    rows_of_it_ = 0;
    last_seq_ = 0;
  }
  while (true) {
    switch (state_) {
      case State::kBegun:
      case State::kListing:
        if (absl::Status status = AwaitList(deadline); !status.ok()) return status;
        if (state_ == State::kListing) return Step::kNothingYet;
        break;
      case State::kPaging: {
        const absl::Status status = StartPage(absl::Now() + settings_.silence_timeout);
        if (!status.ok()) return status;
        break;
      }
      case State::kInPage: {
        const absl::StatusOr<Step> step = NextInPage(deadline);
        if (!step.ok() || *step != Step::kEnded) return step;
        state_ = State::kPaging;
        break;
      }
      case State::kEnded:
        return Step::kEnded;
    }
  }
}

absl::Status Pull::StartPage(absl::Time deadline) {
  constexpr char kDoing[] = "reading rows of the changelog";
  asked_ = absl::Now();
  if (at_ == listed_.size()) {
    if (!list_ended_) {
      state_ = State::kListing;
      return session_->Send(statements_.ListMore(kWindowTransactionsMax), kDoing);
    }
    state_ = State::kEnded;
    return session_->Query(statements_.End(), "ending a pull of the changelog", deadline).status();
  }
  const size_t whole = rows_of_it_ > 0 ? 0 : WholeInPage(listed_, at_, settings_.page_rows);
  in_part_ = whole == 0;
  page_end_ = at_ + whole;
  part_rows_ = 0;
  state_ = State::kInPage;
  const std::string page =
      in_part_ ? statements_.PartPage(listed_[at_].xid, last_seq_, settings_.page_rows)
               : statements_.WholePage(std::span(listed_).subspan(at_, whole));
  return session_->StartCopy(page, kDoing, deadline);
}

absl::StatusOr<Pull::Step> Pull::NextInPage(absl::Time deadline) {
  // The page of a part ends with its rows; the transaction, when all of them were read.
  if (rows_of_it_ > 0 && rows_of_it_ == listed_[at_].rows) {
    ended_it_ = true;
    return Step::kTransactionEnd;
  }
  while (true) {
    const absl::StatusOr<Connection::Copy> copy = session_->NextCopy(&line_);
    if (!copy.ok()) return copy.status();
    if (*copy == Connection::Copy::kData) break;
    if (*copy == Connection::Copy::kEnd) {
      const bool good = in_part_ ? part_rows_ > 0 : at_ == page_end_;
      if (!good) return Disagree(listed_[std::min(at_, listed_.size() - 1)], rows_of_it_);
      return Step::kEnded;
    }
    const absl::StatusOr<Connection::Wake> wake = session_->Wait(deadline, nudge_);
    if (!wake.ok()) return wake.status();
    if (*wake == Connection::Wake::kReadable) {
      asked_ = absl::Now();
      continue;
    }
    if (absl::Status silent = CheckSilence(settings_.silence_timeout); !silent.ok()) return silent;
    return Step::kNothingYet;
  }
  absl::StatusOr<ChangelogRow> row = ParseRow(line_, &scratch_);
  if (!row.ok()) return row.status();
  if (at_ >= listed_.size() || row->xid != listed_[at_].xid) {
    return Disagree(listed_[std::min(at_, listed_.size() - 1)], rows_of_it_);
  }
  row_ = *row;
  last_seq_ = row_.seq;
  ++rows_of_it_;
  ++part_rows_;
  ++rows_read_;
  return Step::kRow;
}

}  // namespace tidemark::capture::changelog
