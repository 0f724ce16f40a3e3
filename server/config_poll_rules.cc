#include <fmt/format.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/timestamps.h"
#include "server/config_engine_rules.h"
#include "server/config_value.h"
#include "server/recovery.h"

namespace tidemark {
namespace {

constexpr int64_t kIntervalDefaultMs = 5'000;
constexpr int64_t kIntervalMinMs = 100;
constexpr int64_t kIntervalMaxMs = 3'600'000;
constexpr uint32_t kPageRowsDefault = 1'000;
constexpr uint32_t kPageRowsMax = 10'000;
constexpr int64_t kOverlapDefaultMs = 60'000;
constexpr int64_t kDelayDefaultMs = 1'000;
constexpr int64_t kDelayMaxMs = 3'600'000;
constexpr int64_t kFutureToleranceDefaultMs = 60'000;
constexpr uint64_t kUnindexedRowsMaxDefault = 100'000;
constexpr int64_t kKeyScanPeriodMinMs = 60'000;
constexpr int64_t kKeyScanPeriodMaxMs = int64_t{30} * 24 * 3'600'000;
constexpr uint32_t kKeyScanRowsPerSecondDefault = 10'000;
// What PostgreSQL allows in an index.
constexpr int kKeyColumnsMax = 32;
const std::vector<std::string> kNullCursorWords = {"fail", "include", "exclude"};

// As the source writes its positions: poll 17.
constexpr std::string_view kPollWord = "poll ";

constexpr char kNoOverlap[] =
    "0 reads nothing again: a row that is committed later than one with a higher cursor is lost; "
    "give it a window, or set allow_no_overlap: true";

using Names = google::protobuf::RepeatedPtrField<std::string>;

void FillPeriod(int64_t milliseconds, google::protobuf::Duration* period) {
  *period = ToDuration(absl::Milliseconds(milliseconds));
}

// The columns of a key.
void CheckColumns(const std::string& path, const Names& columns, BrokenRules* broken) {
  std::set<std::string> seen;
  for (int i = 0; i < columns.size(); ++i) {
    const std::string item = fmt::format("{}[{}]", path, i);
    broken->Require(item, columns[i]);
    if (!seen.insert(columns[i]).second) {
      broken->Fail(item, fmt::format("the column {} is named twice", columns[i]));
    }
  }
  if (columns.size() > kKeyColumnsMax) {
    broken->Fail(path, fmt::format("at most {} columns", kKeyColumnsMax));
  }
}

void CheckCursor(const std::string& path, const std::string& cursor, BrokenRules* broken) {
  broken->Require(path, cursor);
  if (cursor.find(',') != std::string::npos) {
    broken->Fail(path,
                 "expects one column: rows with the same cursor are told apart by the key, which "
                 "is put behind it");
  }
}

void CheckTombstones(const std::string& path, const v1::PolledTable& table, BrokenRules* broken) {
  const v1::TombstoneTable& tombstones = table.tombstones();
  CheckCursor(path + ".cursor", tombstones.cursor(), broken);
  CheckColumns(path + ".key", tombstones.key(), broken);
  const int columns = tombstones.key_size();
  if (columns > 0 && table.key_size() > 0 && columns != table.key_size()) {
    broken->Fail(path + ".key", fmt::format("{} columns, and the key of the table has {}", columns,
                                            table.key_size()));
  }
}

void CheckPolledTable(const std::string& path, const v1::PolledTable& table, bool no_overlap,
                      BrokenRules* broken) {
  CheckCursor(path + ".cursor", table.cursor(), broken);
  CheckColumns(path + ".key", table.key(), broken);
  broken->CheckWord(path + ".null_cursor", table.null_cursor(), kNullCursorWords);
  if (!table.deleted().empty() && table.deleted() == table.cursor()) {
    broken->Fail(path + ".deleted", "the cursor column itself: every row would be a deleted one");
  }
  if (table.has_overlap_values() && table.overlap_values() == 0 && !no_overlap) {
    broken->Fail(path + ".overlap_values", kNoOverlap);
  }
  if (table.has_tombstones()) CheckTombstones(path + ".tombstones", table, broken);
}

// Where each table was named first, by its name.
using Named = std::map<std::string, std::string>;

// The line of the entry that named the table before; 0: this one does first.
int LineBefore(const std::string& table, const std::string& path, Named* named,
               const BrokenRules& broken) {
  const auto [other, is_new] = named->emplace(table, path);
  return is_new ? 0 : broken.LineOf(other->second);
}

void CheckTombstoneTable(const std::string& path, const v1::PolledTable& polled, Named* named,
                         BrokenRules* broken) {
  const std::string key = path + ".tombstones.table";
  const auto table = broken->CheckTable(key, polled.tombstones().table());
  if (!table) return;
  if (*table == polled.table()) {
    broken->Fail(key, "the table itself; a column that marks deleted rows is named by deleted");
  } else if (const int line = LineBefore(*table, path, named, *broken); line > 0) {
    broken->Fail(key, fmt::format("{} holds the tombstones of the table on line {} already: "
                                  "nothing in it would say of which one a row is",
                                  *table, line));
  }
}

void CheckTables(const std::string& path, const v1::PollConfig& poll, BrokenRules* broken) {
  if (poll.tables().empty()) broken->Fail(path, "expects at least one table");
  Named polled;
  Named tombstones;
  for (int i = 0; i < poll.tables_size(); ++i) {
    const v1::PolledTable& entry = poll.tables(i);
    const std::string item = fmt::format("{}[{}]", path, i);
    if (const auto table = broken->CheckTable(item + ".table", entry.table())) {
      if (const int line = LineBefore(*table, item, &polled, *broken); line > 0) {
        broken->Fail(item + ".table",
                     fmt::format("{} is polled already, by the entry on line {}", *table, line));
      }
    }
    CheckPolledTable(item, entry, poll.allow_no_overlap(), broken);
    if (entry.has_tombstones()) CheckTombstoneTable(item, entry, &tombstones, broken);
  }
}

void CheckRows(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken) {
  constexpr char kNeedsRows[] =
      "a polled feed needs the current rows: what a poll finds is compared with them";
  if (!feed.rows()) broken->Fail(path + ".rows", kNeedsRows);
  if (!feed.rows_off().empty()) broken->Fail(path + ".rows_off", kNeedsRows);
  // One that is moved to the log may.
  if (!feed.has_postgres() &&
      RecoveryPolicyOf(feed.recovery()) == v1::RECOVERY_POLICY_GAP_AND_CONTINUE) {
    broken->Fail(path + ".recovery",
                 "a polled feed needs its current rows, and gap_and_continue gives them up: "
                 "expects stop or resnapshot");
  }
}

}  // namespace

void FillPoll(v1::PollConfig* poll) {
  if (poll->has_postgres()) FillLogin(poll->mutable_postgres());
  if (!poll->has_interval()) FillPeriod(kIntervalDefaultMs, poll->mutable_interval());
  if (poll->page_rows() == 0) poll->set_page_rows(kPageRowsDefault);
  if (!poll->has_overlap()) FillPeriod(kOverlapDefaultMs, poll->mutable_overlap());
  if (!poll->has_delay()) FillPeriod(kDelayDefaultMs, poll->mutable_delay());
  if (!poll->has_future_tolerance()) {
    FillPeriod(kFutureToleranceDefaultMs, poll->mutable_future_tolerance());
  }
  if (poll->unindexed_rows_max() == 0) poll->set_unindexed_rows_max(kUnindexedRowsMaxDefault);
  if (poll->has_key_scan() && poll->key_scan().rows_per_second() == 0) {
    poll->mutable_key_scan()->set_rows_per_second(kKeyScanRowsPerSecondDefault);
  }
  // Whether overlap_values means anything depends on the type of the cursor, which the source
  // knows.
  for (v1::PolledTable& table : *poll->mutable_tables()) {
    if (table.null_cursor().empty()) table.set_null_cursor(kNullCursorWords.front());
  }
}

void CheckPoll(const std::string& feed_path, const v1::FeedConfig& feed, BrokenRules* broken) {
  const std::string path = feed_path + ".poll";
  const v1::PollConfig& poll = feed.poll();
  CheckRows(feed_path, feed, broken);
  if (poll.has_postgres()) {
    CheckLogin(path + ".postgres", poll.postgres(), broken);
  } else {
    broken->Fail(path, "expects one engine: postgres");
  }
  CheckTables(path + ".tables", poll, broken);
  broken->CheckPeriod(path + ".interval", poll.interval(), absl::Milliseconds(kIntervalMinMs),
                      absl::Milliseconds(kIntervalMaxMs));
  broken->CheckCount(path + ".page_rows", poll.page_rows(), kPageRowsMax);
  if (FromDuration(poll.overlap()) == absl::ZeroDuration() && !poll.allow_no_overlap()) {
    broken->Fail(path + ".overlap", kNoOverlap);
  }
  broken->CheckPeriod(path + ".delay", poll.delay(), absl::ZeroDuration(),
                      absl::Milliseconds(kDelayMaxMs));
  if (poll.key_scan().has_period()) {
    broken->CheckPeriod(path + ".key_scan.period", poll.key_scan().period(),
                        absl::Milliseconds(kKeyScanPeriodMinMs),
                        absl::Milliseconds(kKeyScanPeriodMaxMs));
  }
}

std::string PollStopComplaint(const StopOrder& order) {
  std::string_view number = order.native;
  const bool has_word = number.substr(0, kPollWord.size()) == kPollWord;
  if (has_word) number.remove_prefix(kPollWord.size());
  const bool is_number = ParseUnsigned(number, std::numeric_limits<uint64_t>::max()).ok();
  return has_word && is_number ? "" : "expects never, now, a time, or the last poll: poll 17";
}

}  // namespace tidemark
