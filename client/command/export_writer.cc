#include "client/command/export_writer.h"

#include <fmt/format.h>

#include "absl/time/clock.h"
#include "client/command/report.h"
#include "client/csv_line.h"
#include "client/json_line.h"
#include "client/reason.h"
#include "proto/reason.h"

namespace tidemark::command {

ExportWriter::ExportWriter(ExportFile& file)
    : file_(file),
      csv_(file.saved().request.format == "csv"),
      now_(file.saved()),
      boundary_(file.saved()),
      saved_at_(absl::Now()) {}

void ExportWriter::Reached(std::string_view cursor) {
  now_.cursor = cursor;
  now_.bytes = file_.bytes();
  boundary_ = now_;
}

absl::Status ExportWriter::OnOpened(const v1::Opened& opened) {
  in_bootstrap_ = opened.rows_follow();
  if (in_bootstrap_ || !now_.cursor.empty()) return absl::OkStatus();
  // From here on the start is a fixed boundary, also where it was asked for as "latest".
  Reached(opened.start_cursor());
  save_now_ = true;
  return absl::OkStatus();
}

absl::Status ExportWriter::AddHeader(const client::ChangeView& change) {
  if (change.schema().schema_id() == fitting_schema_id_) return absl::OkStatus();
  fitting_schema_id_ = change.schema().schema_id();
  const std::string header = client::CsvHeader(change.schema());
  if (now_.header == header && now_.lines_by_table.contains(change.table()))
    return absl::OkStatus();
  if (now_.header.empty()) {
    now_.header = header;
    return file_.AddLine(header);
  }
  const std::string found =
      now_.lines_by_table.contains(change.table())
          ? fmt::format("the columns of {} changed at {}", change.table(), change.position())
          : fmt::format("a change of {} comes behind those of {}", change.table(),
                        now_.lines_by_table.begin()->first);
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, client::reason::kFormatUnsuitable,
      fmt::format("a file of CSV has the columns of one table, and {}: name one table with "
                  "--tables, end before the change of columns, or use --format jsonl",
                  found),
      {{"table", change.table()}});
}

absl::Status ExportWriter::AddLine(const client::ChangeView& change) {
  if (csv_) {
    if (auto header = AddHeader(change); !header.ok()) return header;
  }
  ++now_.lines_by_table[change.table()];
  return file_.AddLine(csv_ ? client::CsvLine(change) : client::JsonLine(change));
}

absl::Status ExportWriter::OnRow(const client::ChangeView& row) {
  ++now_.rows;
  return AddLine(row);
}

absl::Status ExportWriter::OnRowsEnd(std::string_view cursor) {
  in_bootstrap_ = false;
  Reached(cursor);
  save_now_ = true;
  return absl::OkStatus();
}

absl::Status ExportWriter::OnRowsAgain() {
  now_ = ExportState();
  now_.request = boundary_.request;
  boundary_ = now_;
  fitting_schema_id_ = 0;
  in_transaction_ = false;
  return file_.CutTo(0);
}

absl::Status ExportWriter::OnTransactionBegin(const v1::Transaction& begin) {
  in_transaction_ = true;
  if (now_.first_position.empty()) now_.first_position = begin.position();
  return absl::OkStatus();
}

absl::Status ExportWriter::OnChange(const client::ChangeView& change) {
  ++now_.changes;
  return AddLine(change);
}

absl::Status ExportWriter::OnTransactionEnd(const v1::Transaction& end) {
  in_transaction_ = false;
  ++now_.transactions;
  now_.last_position = end.position();
  // In a bootstrap there is no cursor: it begins again as a whole.
  if (!end.cursor().empty()) Reached(end.cursor());
  return absl::OkStatus();
}

absl::Status ExportWriter::OnProgress(const v1::Progress& progress) {
  if (!in_transaction_ && !progress.cursor().empty()) Reached(progress.cursor());
  return absl::OkStatus();
}

absl::Status ExportWriter::OnGap(const v1::Gap& gap) {
  fmt::print(stderr, "tidemark: gap: {}: {}\n", gap.reason(), gap.detail());
  now_.gaps.push_back(fmt::format("{}: {}", gap.reason(), gap.detail()));
  if (!gap.to_cursor().empty()) Reached(gap.to_cursor());
  return absl::OkStatus();
}

absl::Status ExportWriter::OnBound(const v1::Bound& bound) {
  now_.bound = boundary_.bound = bound.native_position();
  save_now_ = true;
  return absl::OkStatus();
}

absl::Status ExportWriter::OnClosing(const v1::Closing& closing) {
  if (closing.reason() != reason::kFinished) return absl::OkStatus();
  if (in_bootstrap_ || in_transaction_ || closing.cursor().empty()) {
    return ErrorWithReason(absl::StatusCode::kDataLoss, client::reason::kContractBroken,
                           "the server says that it is finished inside a transaction or the rows");
  }
  Reached(closing.cursor());
  finished_ = true;
  return absl::OkStatus();
}

absl::Status ExportWriter::OnMessageEnd() {
  const absl::Time now = absl::Now();
  const bool due = save_now_ || boundary_.bytes >= file_.saved().bytes + kExportSaveBytes ||
                   now >= saved_at_ + kExportSavePeriod;
  if (!due || boundary_ == file_.saved()) return absl::OkStatus();
  save_now_ = false;
  saved_at_ = now;
  return file_.SaveState(boundary_);
}

void ExportWriter::OnDisconnected(const absl::Status& why, absl::Duration wait) {
  ReportRetry(why, file_.saved().request.feed,
              absl::FormatDuration(absl::Trunc(wait, absl::Milliseconds(1))));
}

}  // namespace tidemark::command
