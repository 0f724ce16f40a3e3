#include "capture/verification.h"

#include <fmt/format.h>

#include <utility>

#include "proto/reason.h"

namespace tidemark::capture {

absl::Status VerificationCutOff() {
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
                         "the connection with the source ended during the verification; what was "
                         "said of tables up to their last record holds. Run it again");
}

absl::Status CheckSelected(const std::vector<TablePattern>& patterns,
                           const std::vector<bool>& found, bool any) {
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (found[i] || !patterns[i].exact()) continue;
    return ErrorWithReason(
        absl::StatusCode::kInvalidArgument, reason::kTableUnknown,
        fmt::format("the feed has no table {}; nothing was compared", patterns[i].Text()),
        {{"table", patterns[i].Text()}});
  }
  if (any) return absl::OkStatus();
  // Nothing compared must not look like nothing found.
  return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kTableUnknown,
                         patterns.empty() ? "the feed has no table; nothing was compared"
                                          : "no table of the feed fits; nothing was compared");
}

v1::DifferenceKind CountDifferent(const std::vector<ColumnDifference>& columns,
                                  v1::VerifyTotals* totals, v1::VerifyResponse* finding) {
  for (const ColumnDifference& column : columns) {
    *(column.absent ? finding->add_absent_columns() : finding->add_columns()) = column.name;
  }
  if (finding->columns().empty()) {
    totals->set_incomplete(totals->incomplete() + 1);
    return v1::DIFFERENCE_KIND_INCOMPLETE;
  }
  totals->set_different(totals->different() + 1);
  return v1::DIFFERENCE_KIND_DIFFERENT;
}

v1::VerifyResponse EndOfTable(std::string table, v1::VerifyTotals totals,
                              const absl::Status& status, absl::Time now) {
  v1::VerifyResponse last;
  last.set_table(std::move(table));
  last.set_last(true);
  last.set_rows_compared(totals.rows_compared());
  *last.mutable_totals() = std::move(totals);
  if (!status.ok()) {
    last.mutable_error()->set_reason(ReasonOf(status));
    last.mutable_error()->set_message(std::string(status.message()));
    last.mutable_error()->mutable_at()->set_seconds(absl::ToUnixSeconds(now));
  }
  return last;
}

}  // namespace tidemark::capture
