// Which transactions of a changelog a pull is to tell, and in which order. Knows no database: plain
// values, 64-bit numbers, texts of snapshots. Safe from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/changelog/settings.h"
#include "capture/postgres/xid_snapshot.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::changelog {

// A transaction of the changelog, in the order in which they are told.
struct ListedTransaction {
  uint64_t xid = 0;
  uint64_t last_seq = 0;
  uint64_t rows = 0;
};

// The transactions of a pull, out of those whose rows its own database transaction sees.
struct PullScope {
  // These, and all from `from_xid` on.
  std::vector<uint64_t> xids;
  uint64_t from_xid = 0;
  // Strictly below it.
  std::optional<uint64_t> below_xid;
  // Not empty: and those alone that this snapshot sees.
  std::string visible_in;
  // And those alone that lie behind this one, by highest number, then xid.
  std::optional<ListedTransaction> behind;
  // Told in the order of their xid; else in that of their highest number, then xid.
  bool by_xid = false;
};

// What is to be told next by what was told so far, under a database transaction with the snapshot
// `now`. A pull that did not come to its end is gone on with: the same transactions, in the same
// order, whatever was committed since.
absl::StatusOr<PullScope> ScopeOf(const v1::ChangelogCheckpoint& told, Strategy strategy,
                                  const postgres::XidSnapshot& now);

// The changelog says of the pull that begins: its snapshot as text, the highest number in the
// table, the source's clock.
struct PullBegun {
  std::string snapshot;
  uint64_t highest_seq = 0;
  int64_t clock_us = 0;
};

// How the checkpoint moves. `trim`: rows go away, so that the highest number proves nothing.
void BeginPull(const PullBegun& begun, const Settings& settings, v1::ChangelogCheckpoint* told);
// REQUIRES: in the order of the scope.
void TellTransaction(const ListedTransaction& transaction, v1::ChangelogCheckpoint* told);
// Everything in the scope was told. The snapshot is noted as if it ended behind the highest xid
// that was ever told: the server may have given out, and may give out again after a crash, ids
// beyond it of which it wrote nothing to its log. None of those had rows that were seen, so nothing
// is told twice by it.
absl::Status EndPull(Strategy strategy, v1::ChangelogCheckpoint* told);

// The same for a feed that begins to be read by another strategy than before. CHANGELOG_UNUSABLE
// where that would lose or repeat.
absl::Status ChangeStrategy(Strategy strategy, v1::ChangelogCheckpoint* told);

// How many of `listed` are read as one page: as many, whole, as have no more rows than that. 0: the
// first one alone has more, and is read by pages of its own.
size_t WholeInPage(const std::vector<ListedTransaction>& listed, size_t first, uint64_t page_rows);

}  // namespace tidemark::capture::changelog
