#include "tests/testing/recorded_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/testing/guarantees.h"
#include "tests/testing/record_reader.h"

namespace tidemark::testing {

RecordedStream::~RecordedStream() {
  if (!checked_) return;
  for (const absl::Status& kept :
       {CheckOrdered(*this), CheckWhole(*this), CheckOnce(*this), CheckProgressing(*this),
        CheckSchemas(*this), CheckGaps(*this)}) {
    if (!kept.ok()) ADD_FAILURE() << "stream " << name_ << ": " << kept.message();
  }
}

void RecordedStream::Connected(const v1::SubscribeRequest& request) {
  if (!segments_.empty() && !segments_.back().ended) Disconnected("connected anew");
  segments_.push_back({request, {}, false, {}});
  in_bootstrap_ = false;
}

void RecordedStream::Record(const v1::SubscribeResponse& record, std::chrono::milliseconds waited) {
  ASSERT_FALSE(segments_.empty()) << "Record before Connected";
  segments_.back().events.push_back({record, waited});
  NoteCursors(record);
}

void RecordedStream::NoteCursors(const v1::SubscribeResponse& record) {
  if (record.has_opened()) {
    in_bootstrap_ = record.opened().rows_follow();
    if (!in_bootstrap_ && resume_cursor_.empty()) resume_cursor_ = record.opened().start_cursor();
  }
  if (record.rows().last()) {
    in_bootstrap_ = false;
    resume_cursor_ = record.rows().cursor();
  }
  for (const v1::Transaction& part : record.batch().transactions()) {
    if (!part.last()) continue;
    resume_cursor_ = part.cursor();
    ++finished_transactions_;
  }
  if (in_bootstrap_) return;
  if (!record.gap().to_cursor().empty()) resume_cursor_ = record.gap().to_cursor();
  if (!record.progress().cursor().empty()) resume_cursor_ = record.progress().cursor();
  if (!record.closing().cursor().empty()) resume_cursor_ = record.closing().cursor();
}

void RecordedStream::Disconnected(std::string_view end) {
  if (segments_.empty() || segments_.back().ended) return;
  segments_.back().ended = true;
  segments_.back().end = end;
}

namespace {

absl::StatusOr<const RecordReader*> ReaderOf(const RecordedSegment& segment) {
  if (segment.reader == nullptr) segment.reader = std::make_shared<RecordReader>();
  for (; segment.events_read < segment.events.size(); ++segment.events_read) {
    absl::Status read = segment.reader->Read(segment.events[segment.events_read].record);
    if (read.ok()) continue;
    // It says the same when it is asked again.
    segment.reader = nullptr;
    segment.events_read = 0;
    return read;
  }
  return segment.reader.get();
}

}  // namespace

absl::StatusOr<std::span<const RecordedTransaction>> TransactionsOf(
    const RecordedSegment& segment) {
  absl::StatusOr<const RecordReader*> reader = ReaderOf(segment);
  if (!reader.ok()) return reader.status();
  return std::span<const RecordedTransaction>((*reader)->transactions());
}

absl::StatusOr<std::span<const RecordedChange>> RowsOf(const RecordedSegment& segment) {
  absl::StatusOr<const RecordReader*> reader = ReaderOf(segment);
  if (!reader.ok()) return reader.status();
  return std::span<const RecordedChange>((*reader)->rows());
}

absl::StatusOr<std::vector<RecordedTransaction>> SeenTransactions(const RecordedStream& stream) {
  std::vector<RecordedTransaction> seen;
  for (const RecordedSegment& segment : stream.segments()) {
    const auto transactions = TransactionsOf(segment);
    if (!transactions.ok()) return transactions.status();
    // A bootstrap that begins again makes the client forget what it had.
    for (const RecordedEvent& event : segment.events) {
      if (event.record.opened().rows_follow()) seen.clear();
    }
    for (const RecordedTransaction& transaction : *transactions) {
      if (transaction.finished) seen.push_back(transaction);
    }
  }
  return seen;
}

namespace {

using TableRows = std::map<std::string, Columns>;

// Rows of a table without a key stand under all that they hold, and a number.
std::string ContentText(const Columns& columns) { return DescribeColumns(columns) + "\n"; }

// A row that was there before a column says nothing of it, and one that is gone does not matter.
bool SameContent(const Columns& row, const Columns& before) {
  return std::all_of(before.begin(), before.end(), [&](const auto& column) {
    const auto found = row.find(column.first);
    return found == row.end() ? !column.second : found->second == column.second;
  });
}

// One of those that are equal.
void RemoveOne(const Columns& before, TableRows* rows) {
  const std::string text = ContentText(before);
  auto found = rows->lower_bound(text);
  if (found == rows->end() || found->first.rfind(text, 0) != 0) {
    found = std::find_if(rows->begin(), rows->end(),
                         [&](const auto& row) { return SameContent(row.second, before); });
  }
  // Rows that moved without a message are told later.
  if (found != rows->end()) rows->erase(found);
}

void FoldWithoutKey(const RecordedChange& change, TableRows* rows, uint64_t* number) {
  if (change.op == "update" || change.op == "delete") RemoveOne(change.before, rows);
  if (change.op == "delete") return;
  (*rows)[ContentText(change.columns) + std::to_string((*number)++)] = change.columns;
}

void FoldByKey(const RecordedChange& change, TableRows* rows) {
  if (change.op == "delete") {
    rows->erase(DescribeColumns(change.key));
    return;
  }
  Columns& row = (*rows)[DescribeColumns(change.key)];
  Columns after = change.columns;
  // What the source did not say is what it was; a column that is gone is gone.
  for (const std::string& name : change.absent) {
    if (change.op == "update" && row.count(name) > 0) after[name] = row.at(name);
  }
  row = std::move(after);
}

}  // namespace

absl::StatusOr<FoldedRows> Fold(const RecordedStream& stream) {
  FoldedRows rows;
  uint64_t number = 0;
  for (const RecordedSegment& segment : stream.segments()) {
    for (const RecordedEvent& event : segment.events) {
      if (event.record.opened().rows_follow()) rows.clear();
    }
    absl::StatusOr<const RecordReader*> reader = ReaderOf(segment);
    if (!reader.ok()) return reader.status();
    for (const RecordedChange& row : (*reader)->rows()) {
      rows[row.table][DescribeColumns(row.key)] = row.columns;
    }
    for (const RecordedTransaction& transaction : (*reader)->transactions()) {
      if (!transaction.finished) continue;
      for (const RecordedChange& change : transaction.changes) {
        if (change.op == "truncate") {
          rows[change.table].clear();
        } else if (change.key.empty()) {
          FoldWithoutKey(change, &rows[change.table], &number);
        } else {
          FoldByKey(change, &rows[change.table]);
        }
      }
    }
  }
  return rows;
}

std::string DescribeColumns(const Columns& columns) {
  std::string text;
  for (const auto& [name, value] : columns) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{}={}", name, value ? "'" + *value + "'" : "NULL");
  }
  return text;
}

std::string Describe(const RecordedChange& change) {
  return fmt::format("{}/{} {} {} {}", change.position, change.sequence, change.op, change.table,
                     DescribeColumns(change.columns));
}

}  // namespace tidemark::testing
