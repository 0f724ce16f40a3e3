// TableVerifier: what the chunks say.
#include <fmt/format.h>

#include <utility>

#include "capture/postgres/table_verifier.h"
#include "capture/row_image.h"
#include "capture/source.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture::postgres {
namespace {

// A chunk, and the end of its table.
static_assert(kChunkRowsMax + 1 <= kFindingsAtOnceMax);
static_assert(kKeysAskedMax <= kChunkRowsMax);

absl::Status Refused(std::string_view reason, const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason, message);
}

}  // namespace

absl::Status TableVerifier::Compare(const TableChunk& chunk, const Position& at, absl::Time now) {
  if (!active() || !subject_) return absl::OkStatus();
  if (const absl::Status shape = CheckShape(chunk); !shape.ok()) {
    EndTable(shape);
    return absl::OkStatus();
  }
  subject_->failures = 0;
  if (subject_->pass == Pass::kShape) {
    subject_->relation = chunk.relation;
    subject_->pass = Pass::kRows;
    return absl::OkStatus();
  }
  at_ = at;
  touched_ = false;
  if (subject_->totals.first_position().empty()) subject_->totals.set_first_position(at.Text());
  subject_->totals.set_last_position(at.Text());
  const absl::Status status =
      subject_->pass == Pass::kRows ? CompareRows(chunk) : CompareKeys(chunk);
  // Rows that are written to again and again get a moment of rest, perhaps.
  if (touched_ && !looks_.empty()) due_ = now + kChunkRetryPeriod;
  if (ReasonOf(status) != reason::kSourceProtocol) return status;
  EndTable(status);
  return absl::OkStatus();
}

absl::Status TableVerifier::CheckShape(const TableChunk& chunk) const {
  const std::string table = TableNameText(subject_->name.first, subject_->name.second);
  if (chunk.relation.shape.key_columns.empty()) {
    return Refused(
        reason::kTableUnreadable,
        fmt::format("{} has no key that its rows can be told apart by, so they cannot be "
                    "compared; give it a primary key",
                    table));
  }
  if (!lent_.known->Kept(chunk.relation.schema)) {
    return Refused(
        reason::kRowsNotKept,
        fmt::format("no current rows of {} are kept, so there is nothing to compare: "
                    "rows_off in the configuration, or its key was changed; the notes of "
                    "tidemark describe say which",
                    table));
  }
  if (subject_->pass == Pass::kShape ||
      KeyColumnNames(chunk.relation) == KeyColumnNames(subject_->relation)) {
    return absl::OkStatus();
  }
  return Refused(reason::kTableBusy,
                 fmt::format("the key of {} became another one while it was compared; verify it "
                             "again",
                             table));
}

absl::Status TableVerifier::CompareRows(const TableChunk& chunk) {
  const RowShape& shape = chunk.relation.shape;
  absl::flat_hash_set<std::string> came;
  const absl::Status compared = lent_.comparison->Rows(chunk, [&](const ComparedRow& row) {
    if (chunk.cut) came.insert(row.key);
    if (row.verdict != RowVerdict::kTouched) return Judge(chunk.relation, row);
    LookAgain({.key = row.key, .texts = KeyTextsOf(shape, row.line), .image = {}});
  });
  if (!compared.ok()) return compared;
  if (!asked_.empty()) {
    // Of those that are gone, the second pass says whether they are still known.
    if (chunk.cut) AskNextTime(came);
    return absl::OkStatus();
  }
  if (!chunk.lines.empty()) subject_->after_key = KeyTextsOf(shape, chunk.lines.back());
  subject_->pass_at_end = chunk.at_end;
  return absl::OkStatus();
}

// What did not fit into the chunk.
void TableVerifier::AskNextTime(const absl::flat_hash_set<std::string>& came) {
  for (KnownKey& key : asked_) {
    if (came.contains(key.key)) continue;
    const int looks = looks_[key.key];
    subject_->again.push_front({std::move(key), looks});
  }
}

absl::Status TableVerifier::CompareKeys(const TableChunk& chunk) {
  const v1::TableSchema& schema = chunk.relation.schema;
  return lent_.comparison->Keys(chunk, asked_, [&](const KnownKey& key, RowVerdict verdict) {
    if (verdict == RowVerdict::kTouched) return LookAgain(key);
    // Those that both have were compared by the first pass.
    if (verdict != RowVerdict::kExtra) return;
    subject_->totals.set_rows_compared(subject_->totals.rows_compared() + 1);
    subject_->totals.set_extra(subject_->totals.extra() + 1);
    Report(v1::DIFFERENCE_KIND_EXTRA, KeyJson(schema, key.image, ImageColumns::kKey), {});
  });
}

void TableVerifier::Judge(const Relation& relation, const ComparedRow& row) {
  v1::VerifyTotals& totals = subject_->totals;
  totals.set_rows_compared(totals.rows_compared() + 1);
  if (row.verdict == RowVerdict::kSame) return;
  v1::VerifyResponse finding;
  v1::DifferenceKind kind = v1::DIFFERENCE_KIND_MISSING;
  if (row.verdict == RowVerdict::kMissing) {
    totals.set_missing(totals.missing() + 1);
  } else {
    kind = CountDifferent(row.columns, &totals, &finding);
  }
  Report(kind, KeyJson(relation.schema, row.after, ImageColumns::kAll), std::move(finding));
}

void TableVerifier::LookAgain(KnownKey key) {
  touched_ = true;
  const auto before = looks_.find(key.key);
  const int looks = before == looks_.end() ? 1 : before->second + 1;
  if (looks < kLooksMax) {
    subject_->again.push_back({std::move(key), looks});
  } else {
    subject_->totals.set_not_comparable(subject_->totals.not_comparable() + 1);
  }
}

void TableVerifier::Report(v1::DifferenceKind kind, std::string key, v1::VerifyResponse finding) {
  finding.set_table(TableNameText(subject_->name.first, subject_->name.second));
  finding.set_kind(kind);
  finding.set_key(std::move(key));
  finding.set_rows_compared(subject_->totals.rows_compared());
  finding.set_position(at_.Text());
  order_->sink->Put(std::move(finding));
}

void TableVerifier::AskAsBefore() {
  for (auto key = asked_.rbegin(); key != asked_.rend(); ++key) {
    const auto looks = looks_.find(key->key);
    subject_->again.push_front({std::move(*key), looks == looks_.end() ? 0 : looks->second});
  }
}

void TableVerifier::Waits(const std::string& what, absl::Time now) {
  if (!subject_) return;
  AskAsBefore();
  TellWaiting(what);
  due_ = now + kTableRetryPeriod;
}

void TableVerifier::ReadAgain(absl::Time now) {
  if (!subject_) return;
  AskAsBefore();
  due_ = now + kChunkRetryPeriod;
  if (++subject_->failures < kChunkFailuresMax) return;
  EndTable(Refused(reason::kTableBusy,
                   fmt::format("{} is truncated or altered so often that it cannot be compared; "
                               "verify it again when less is done to it",
                               TableNameText(subject_->name.first, subject_->name.second))));
}

void TableVerifier::Failed(const absl::Status& status, absl::Time now) {
  if (!subject_) return;
  const std::string reason = ReasonOf(status);
  if (absl::IsFailedPrecondition(status) && reason.empty()) {
    // The key was there when the table was looked at first.
    EndTable(Refused(reason::kTableUnreadable, std::string(status.message())));
  } else if (reason.empty() || IsRetried(status)) {
    ReadAgain(now);
    due_ = now + kTableRetryPeriod;
  } else {
    EndTable(status);
  }
}

}  // namespace tidemark::capture::postgres
