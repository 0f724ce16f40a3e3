// One pull of a changelog: a READ ONLY REPEATABLE READ transaction in which the transactions of a
// scope are listed, and their rows read page by page, all under one snapshot. It assigns no
// transaction id, so it holds nobody up.
//
//   Begin ─▶ listing (a window of the list) ─▶ paging (its rows) ─▶ listing … ─▶ ended
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/changelog/changelog_row.h"
#include "capture/changelog/pull_scope.h"
#include "capture/changelog/settings.h"
#include "capture/changelog/statements.h"
#include "capture/postgres/connection.h"

namespace tidemark::capture::changelog {

// How many transactions of the list are held in memory.
inline constexpr uint32_t kWindowTransactionsMax = 1000;
// The server may have to sort a backlog of months before it says the first of the list. A peer that
// vanished is noticed earlier, by TCP.
inline constexpr absl::Duration kListTimeout = absl::Minutes(30);

// Thread rule: one thread at a time. The session is lent; after an error it is to be given up.
class Pull {
 public:
  enum class Step {
    kNothingYet,      // at the deadline, or interrupted
    kRow,             // row() is the next one
    kTransactionEnd,  // transaction() had its last row
    kEnded            // all were told; the database transaction is over
  };

  // `nudge` ends a wait.
  Pull(postgres::Connection* session, const Statements& statements, const Settings& settings,
       postgres::Interruption* nudge);

  // Begins the transaction. SOURCE_SILENT at the deadline.
  absl::StatusOr<PullBegun> Begin(absl::Time deadline);
  // OID of the table as this transaction sees it.
  uint32_t table_oid() const { return table_oid_; }

  // Then asks for the list; REQUIRES: Begin.
  absl::Status List(const PullScope& scope);
  // How many transactions the scope has; nothing while the list is not there.
  std::optional<uint64_t> total() const { return total_; }
  // Waits for the list, not longer than the deadline; never reads a row.
  absl::Status AwaitList(absl::Time deadline);

  absl::StatusOr<Step> Next(absl::Time deadline);
  const ChangelogRow& row() const { return row_; }
  const ListedTransaction& transaction() const { return listed_[at_]; }
  uint64_t rows_read() const { return rows_read_; }

 private:
  enum class State { kBegun, kListing, kPaging, kInPage, kEnded };

  absl::Status StartPage(absl::Time deadline);
  absl::StatusOr<Step> NextInPage(absl::Time deadline);
  absl::Status TakeList(const postgres::ResultRows& rows);
  absl::Status CheckSilence(absl::Duration most) const;

  postgres::Connection* const session_;
  const Statements statements_;
  const Settings settings_;
  postgres::Interruption* const nudge_;

  State state_ = State::kBegun;
  uint32_t table_oid_ = 0;
  std::optional<uint64_t> total_;
  std::vector<ListedTransaction> listed_;
  bool list_ended_ = false;
  size_t at_ = 0;            // the transaction that is being read
  uint64_t rows_of_it_ = 0;  // that were read
  uint64_t last_seq_ = 0;    // of it
  bool ended_it_ = false;    // kTransactionEnd was said last
  bool in_part_ = false;     // the page is a part of one transaction
  size_t page_end_ = 0;      // behind the last transaction of the page
  uint64_t part_rows_ = 0;   // of this page of it
  absl::Time asked_ = absl::InfinitePast();
  ChangelogRow row_;
  RowScratch scratch_;
  std::string_view line_;
  uint64_t rows_read_ = 0;
};

}  // namespace tidemark::capture::changelog
