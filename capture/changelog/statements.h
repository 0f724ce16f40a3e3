// Every SQL statement of the changelog source; no other file of this folder words one. Pure; safe
// from any thread. None of them but Trim assigns a transaction id.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "capture/changelog/pull_scope.h"
#include "capture/changelog/settings.h"

namespace tidemark::capture::changelog {

// Which of the columns that may be missing are there.
struct OptionalColumns {
  bool changed_at = false;
  bool old_row = false;
};

class Statements {
 public:
  Statements(const Settings& settings, const OptionalColumns& columns);

  // A READ ONLY REPEATABLE READ transaction. One row: its snapshot; the clock, from before it;
  // the highest number, or NULL; the table's OID.
  std::string Begin() const;
  // The transactions of the scope, in its order, as a cursor: xid, highest number, rows, and how
  // many transactions there are in all. Then the first `window` of them.
  std::string List(const PullScope& scope, uint32_t window) const;
  std::string ListMore(uint32_t window) const;
  // COPY of the rows of these transactions, in this order, with the columns of ChangelogRow.
  std::string WholePage(std::span<const ListedTransaction> transactions) const;
  // The same of at most `rows` of one, behind this number.
  std::string PartPage(uint64_t xid, uint64_t after_seq, uint32_t rows) const;
  std::string End() const { return "COMMIT"; }
  std::string GiveUp() const { return "ROLLBACK"; }

  // How the server would find the transactions of a pull, and the rows of a page.
  std::string ExplainList() const;
  std::string ExplainPage() const;

  // Of the table; no row where there is none: OID, kind, whether the schema may be used, the table
  // read, deleted from; whether row level security hides rows; the role; synchronous_commit.
  std::string Table() const;
  // Its columns: name, type, number.
  std::string Columns() const;
  // Sequences that its numbers are drawn from, by a default or by being owned: name, cache,
  // increment, whether it begins anew at its end.
  std::string Sequences() const;
  // Its indexes that are usable for every row: whether unique, numbers of the columns as text.
  std::string Indexes() const;
  // Triggers of deploy/sql/changelog that are not ENABLE ALWAYS: table, name, whether it fires for
  // rows that a session writes.
  std::string SleepingTriggers() const;

  // How many rows there are from `xid` on, at most `most`.
  std::string CountFrom(uint64_t xid, uint64_t most) const;
  // Who has this id, in words; no row: nobody that may be seen.
  std::string Holder(uint64_t xid) const;

  // Deletes at most `rows` rows of the scope; one row: how many.
  std::string Trim(const PullScope& scope, uint32_t rows) const;

  // To be run by people, as remedies.
  std::string CreateIndex() const;
  std::string CreateUnique() const;
  std::string GrantSelect(const std::string& role, bool with_delete) const;
  std::string GrantUsage(const std::string& role) const;

 private:
  // Rows of the scope that the transaction sees: this of their columns.
  std::string Rows(const PullScope& scope, const std::string& columns) const;
  std::string NamedTable() const;

  const Settings settings_;
  const std::string table_;  // quoted
  const std::string seq_;
  const std::string xid_;
  std::string row_columns_;
};

}  // namespace tidemark::capture::changelog
