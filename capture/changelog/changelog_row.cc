#include "capture/changelog/changelog_row.h"

#include <charconv>

#include "capture/postgres/copy_text.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

constexpr size_t kColumns = 9;

template <class Number>
bool ParseNumber(const std::optional<std::string_view>& text, Number* number) {
  if (!text) return false;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  return error == std::errc() && end == text->data() + text->size();
}

}  // namespace

absl::StatusOr<ChangelogRow> ParseRow(std::string_view line, RowScratch* scratch) {
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  ChangelogRow row;
  auto& columns = scratch->columns;
  bool good = postgres::SplitCopyLine(line, &scratch->text, &columns) && columns.size() == kColumns;
  good = good && ParseNumber(columns[0], &row.xid) && ParseNumber(columns[1], &row.seq);
  if (good && columns[8]) {
    row.changed_at_us = 0;
    good = ParseNumber(columns[8], &*row.changed_at_us);
  }
  if (!good) {
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol,
                           "the server sent something else than a row of the changelog");
  }
  row.schema = columns[2].value_or("");
  row.table = columns[3].value_or("");
  row.op = columns[4].value_or("");
  row.key = columns[5];
  row.row = columns[6];
  row.old_row = columns[7];
  return row;
}

}  // namespace tidemark::capture::changelog
