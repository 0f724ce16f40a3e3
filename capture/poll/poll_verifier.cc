#include "capture/poll/poll_verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/clock.h"
#include "proto/reason.h"

namespace tidemark::capture::poll {

PollVerifier::~PollVerifier() {
  if (order_) End(VerificationCutOff());
}

void PollVerifier::Begin(VerifyOrder order) {
  subject_.reset();
  order_ = std::move(order);
  absl::StatusOr<std::deque<size_t>> selected = Select(order_->tables);
  if (!selected.ok()) return End(selected.status());
  left_ = *std::move(selected);
}

absl::StatusOr<std::deque<size_t>> PollVerifier::Select(
    const std::vector<TablePattern>& patterns) const {
  std::deque<size_t> tables;
  std::vector<bool> found(patterns.size());
  for (size_t table = 0; table < settings_.tables.size(); ++table) {
    bool named = patterns.empty();
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (!patterns[i].Matches(settings_.tables[table].schema, settings_.tables[table].table)) {
        continue;
      }
      found[i] = true;
      named = true;
    }
    if (named) tables.push_back(table);
  }
  if (absl::Status checked = CheckSelected(patterns, found, !tables.empty()); !checked.ok()) {
    return checked;
  }
  return tables;
}

std::optional<size_t> PollVerifier::Next(uint64_t poll) {
  while (order_) {
    if (!order_->sink->Wanted()) {
      End(absl::CancelledError("nobody listens any more"));
      break;
    }
    if (!order_->sink->HasRoom()) break;
    if (subject_) {
      if (PassOf(*subject_) == Pass::kAgain && subject_->again.front().looked_in >= poll) break;
      return subject_->table;
    }
    if (left_.empty()) {
      End(absl::OkStatus());
      break;
    }
    subject_ = Subject();
    subject_->table = left_.front();
    left_.pop_front();
  }
  return std::nullopt;
}

absl::StatusOr<size_t> PollVerifier::Step(const v1::TableSchema& schema, uint64_t poll,
                                          const Position& at) {
  at_ = at;
  if (!comparison_.known().Kept(schema)) {
    EndTable(ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kRowsNotKept,
        fmt::format("no current rows of {} are kept, so there is nothing to compare",
                    settings_.tables[subject_->table].Text())));
    return 0;
  }
  if (subject_->totals.first_position().empty()) subject_->totals.set_first_position(at.Text());
  subject_->totals.set_last_position(at.Text());
  switch (PassOf(*subject_)) {
    case Pass::kRows:
      return StepRows(schema, poll);
    case Pass::kAgain:
      return StepAgain(schema, poll);
    case Pass::kKeys:
      return StepKeys(schema);
  }
  return 0;
}

PollVerifier::Pass PollVerifier::PassOf(const Subject& subject) {
  const bool has_room = subject.again.size() + kVerifyRowsMax <= kRowsWaitingMax;
  if (!subject.rows_at_end && has_room) return Pass::kRows;
  return subject.again.empty() ? Pass::kKeys : Pass::kAgain;
}

absl::StatusOr<size_t> PollVerifier::StepRows(const v1::TableSchema& schema, uint64_t poll) {
  PageOrder order{.part = PageOrder::Part::kByKey,
                  .rows_max = std::min(settings_.page_rows, kVerifyRowsMax)};
  order.after.key = subject_->after_key;
  absl::StatusOr<ChunkScan::Chunk> chunk =
      chunks_.Rows(subject_->table, settings_.tables[subject_->table], schema, order,
                   [&](const ScannedRow& row) { Judge(schema, row, 1, poll); });
  if (!chunk.ok()) return chunk.status();
  if (chunk->rows > 0) subject_->after_key = chunk->last_key;
  subject_->rows_at_end = chunk->at_end;
  return chunk->rows;
}

// Some of the rows that waited, under the snapshot of a later poll. Those that do not come any more
// are left to the pass of the known keys. They wait on when the source gives the snapshot up.
absl::StatusOr<size_t> PollVerifier::StepAgain(const v1::TableSchema& schema, uint64_t poll) {
  PageOrder order{.part = PageOrder::Part::kKeys};
  absl::flat_hash_map<std::vector<std::string>, int> looks;
  auto& again = subject_->again;
  for (const Look& one : again) {
    if (one.looked_in >= poll || order.keys.size() == kKeysAskedMax) break;
    looks[one.key] = one.looks;
    order.keys.push_back(one.key);
  }
  absl::StatusOr<ChunkScan::Chunk> chunk =
      chunks_.Rows(subject_->table, settings_.tables[subject_->table], schema, order,
                   [&](const ScannedRow& row) {
                     // Equal for the source, and written otherwise than the one that waited.
                     const auto before = looks.find(row.row.key);
                     Judge(schema, row, before == looks.end() ? 1 : before->second + 1, poll);
                   });
  if (!chunk.ok()) return chunk.status();
  // Those that wait again came behind them.
  again.erase(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(order.keys.size()));
  return chunk->rows;
}

absl::StatusOr<size_t> PollVerifier::StepKeys(const v1::TableSchema& schema) {
  absl::StatusOr<std::deque<KnownKey>> keys =
      comparison_.LoadKeys(schema, subject_->keys_from, engine_);
  if (!keys.ok()) return keys.status();
  if (keys->empty()) {
    EndTable(absl::OkStatus());
    return 0;
  }
  std::vector<KnownKey> asked;
  for (size_t i = 0; i < std::min(keys->size(), kKeysAskedMax); ++i) {
    asked.push_back(std::move((*keys)[i]));
  }
  absl::StatusOr<std::vector<KnownKey>> gone = chunks_.Gone(subject_->table, schema, asked);
  if (!gone.ok()) return gone.status();
  v1::VerifyTotals& totals = subject_->totals;
  for (const KnownKey& key : *gone) {
    totals.set_rows_compared(totals.rows_compared() + 1);
    totals.set_extra(totals.extra() + 1);
    Report(v1::DIFFERENCE_KIND_EXTRA, KeyJson(schema, key.image, ImageColumns::kKey), {});
  }
  subject_->keys_from = KeyBehind(asked.back().key);
  return asked.size();
}

void PollVerifier::Judge(const v1::TableSchema& schema, const ScannedRow& row, int looks,
                         uint64_t poll) {
  v1::VerifyTotals& totals = subject_->totals;
  if (row.verdict == ScanVerdict::kLeftOut) return;
  if (row.verdict == ScanVerdict::kPending) {
    if (looks < kLooksMax) {
      subject_->again.push_back({row.row.key, looks, poll});
    } else {
      totals.set_not_comparable(totals.not_comparable() + 1);
    }
    return;
  }
  totals.set_rows_compared(totals.rows_compared() + 1);
  v1::VerifyResponse finding;
  v1::DifferenceKind kind = v1::DIFFERENCE_KIND_MISSING;
  switch (row.verdict) {
    case ScanVerdict::kMissing:
      totals.set_missing(totals.missing() + 1);
      break;
    case ScanVerdict::kExtra:
      kind = v1::DIFFERENCE_KIND_EXTRA;
      totals.set_extra(totals.extra() + 1);
      break;
    case ScanVerdict::kDifferent:
      kind = CountDifferent(row.judged.columns, &totals, &finding);
      break;
    default:
      return;
  }
  Report(kind, KeyJson(schema, row.row.key_image, ImageColumns::kKey), std::move(finding));
}

void PollVerifier::Report(v1::DifferenceKind kind, std::string key, v1::VerifyResponse finding) {
  finding.set_table(settings_.tables[subject_->table].Text());
  finding.set_kind(kind);
  finding.set_key(std::move(key));
  finding.set_rows_compared(subject_->totals.rows_compared());
  finding.set_position(at_.Text());
  order_->sink->Put(std::move(finding));
}

void PollVerifier::EndTable(const absl::Status& status) {
  v1::VerifyResponse last = EndOfTable(settings_.tables[subject_->table].Text(),
                                       std::move(subject_->totals), status, absl::Now());
  subject_.reset();
  order_->sink->Put(std::move(last));
}

void PollVerifier::End(const absl::Status& status) {
  const VerifyOrder order = *std::exchange(order_, std::nullopt);
  subject_.reset();
  left_.clear();
  order.sink->End(status);
}

}  // namespace tidemark::capture::poll
