#include "client/command/tail_printer.h"

#include <fmt/format.h>

#include "client/command/report.h"
#include "client/json_line.h"
#include "client/text_line.h"
#include "proto/table_name.h"
#include "proto/value_json.h"

namespace tidemark::command {

using client::ChangeView;

std::string TailPrinter::Line(const ChangeView& change) const {
  return options_.format == TailFormat::kJsonl ? client::JsonLine(change)
                                               : client::TextLine(change);
}

absl::Status TailPrinter::OnOpened(const v1::Opened& opened) {
  if (opened.rows_follow()) return absl::OkStatus();
  unstored_cursor_ = opened.start_cursor();
  return options_.transactions_max == 0 ? Finish() : absl::OkStatus();
}

absl::Status TailPrinter::OnRow(const ChangeView& row) { return output_.AddLine(Line(row)); }

absl::Status TailPrinter::OnRowsEnd(std::string_view cursor) {
  unstored_cursor_ = cursor;
  return options_.transactions_max == 0 ? Finish() : absl::OkStatus();
}

absl::Status TailPrinter::OnRowsAgain() {
  held_.clear();
  return output_.AddLine(options_.format == TailFormat::kJsonl
                             ? R"({"__record":"rows_again"})"
                             : "-- the rows begin again: forget those above");
}

absl::Status TailPrinter::OnChange(const ChangeView& change) {
  if (absl::Status printed = PrintHeld({}); !printed.ok()) return printed;
  held_ = Line(change);
  ++changes_;
  return absl::OkStatus();
}

absl::Status TailPrinter::OnTransactionEnd(const v1::Transaction& end) {
  if (absl::Status printed = PrintHeld(end.cursor()); !printed.ok()) return printed;
  // Part of the snapshot, as the rows are.
  if (end.cursor().empty()) return absl::OkStatus();
  unstored_cursor_ = end.cursor();
  ++transactions_;
  const bool enough = transactions_ == options_.transactions_max ||
                      (options_.changes_max && changes_ >= *options_.changes_max);
  return enough ? Finish() : absl::OkStatus();
}

absl::Status TailPrinter::PrintHeld(std::string_view cursor) {
  if (held_.empty()) return absl::OkStatus();
  if (options_.with_cursor && !cursor.empty()) {
    if (options_.format == TailFormat::kJsonl) {
      client::AddCursor(cursor, &held_);
    } else {
      held_ += fmt::format("  cursor={}", cursor);
    }
  }
  absl::Status printed = output_.AddLine(held_);
  held_.clear();
  return printed;
}

absl::Status TailPrinter::OnProgress(const v1::Progress& progress) {
  if (!progress.cursor().empty()) unstored_cursor_ = progress.cursor();
  const bool idle = progress.state() == v1::FEED_STATE_LIVE;
  return options_.until_idle && idle ? Finish() : absl::OkStatus();
}

absl::Status TailPrinter::OnSchemaChange(const v1::SchemaChange& change) {
  if (absl::Status printed = PrintHeld({}); !printed.ok()) return printed;
  const v1::TableSchema& schema = change.after();
  const std::string table = TableNameText(schema.schema_name(), schema.table_name());
  if (options_.format == TailFormat::kText) {
    std::string columns;
    for (const v1::Column& column : schema.columns()) {
      columns += (columns.empty() ? "" : ", ") + column.name() + " " + column.source_type();
    }
    return output_.AddLine(fmt::format("-- from here on: {} ({})", table, columns));
  }
  std::string line = R"({"__record":"schema_change","__pos":)";
  AppendJsonString(change.position(), &line);
  line += fmt::format(R"(,"__seq":{},"__table":)", change.sequence());
  AppendJsonString(table, &line);
  line += R"(,"columns":{)";
  for (const v1::Column& column : schema.columns()) {
    if (line.back() != '{') line += ",";
    AppendJsonString(column.name(), &line);
    line += ":";
    AppendJsonString(column.source_type(), &line);
  }
  return output_.AddLine(line + "}}");
}

absl::Status TailPrinter::OnGap(const v1::Gap& gap) {
  if (!gap.to_cursor().empty()) unstored_cursor_ = gap.to_cursor();
  fmt::print(stderr, "tidemark: gap: {}: {} ({})\n", gap.reason(), gap.detail(), options_.where);
  if (options_.format == TailFormat::kText) {
    return output_.AddLine(fmt::format("-- gap: {}: {}", gap.reason(), gap.detail()));
  }
  std::string line = R"({"__record":"gap","reason":)";
  AppendJsonString(gap.reason(), &line);
  line += R"(,"detail":)";
  AppendJsonString(gap.detail(), &line);
  line += R"(,"from_cursor":)";
  AppendJsonString(gap.from_cursor(), &line);
  line += R"(,"to_cursor":)";
  AppendJsonString(gap.to_cursor(), &line);
  return output_.AddLine(line + "}");
}

absl::Status TailPrinter::OnClosing(const v1::Closing& closing) {
  // In the middle of a transaction the server's cursor names the boundary before it, as is right.
  if (!closing.cursor().empty()) unstored_cursor_ = closing.cursor();
  return absl::OkStatus();
}

absl::Status TailPrinter::OnMessageEnd() {
  const bool stores =
      cursors_ != nullptr && !unstored_cursor_.empty() && unstored_cursor_ != stored_cursor_;
  if (absl::Status flushed = output_.Flush(stores); !flushed.ok()) return flushed;
  if (!stores) return absl::OkStatus();
  if (absl::Status stored = cursors_->Store(unstored_cursor_); !stored.ok()) return stored;
  stored_cursor_ = unstored_cursor_;
  return absl::OkStatus();
}

absl::Status TailPrinter::Finish() {
  if (absl::Status ended = OnMessageEnd(); !ended.ok()) return ended;
  finished_ = true;
  return absl::CancelledError("everything asked for was printed");
}

void TailPrinter::OnDisconnected(const absl::Status& why, absl::Duration wait) {
  ReportRetry(why, options_.where, absl::FormatDuration(absl::Trunc(wait, absl::Milliseconds(1))));
}

}  // namespace tidemark::command
