// The comparison of all rows of a table with what is known, chunk by chunk, each under the snapshot
// of a poll that has told everything up to its fence: what differs then is what polls cannot see.
//
//   the rows of the source, by key ─▶ the keys that are known and not there ─▶ done
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_settings.h"
#include "capture/poll/row_comparison.h"
#include "capture/poll/table_poll.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::poll {

enum class ScanVerdict {
  kSame,
  kMissing,    // only the source has it
  kDifferent,  // both have it, and columns differ
  kExtra,      // only known; or marked as deleted at the source
  kPending,    // stamped above the fence: a later poll tells it
  kLeftOut,    // without a cursor, in a table where those are left out
};

// Pure.
ScanVerdict VerdictOf(const PolledRow& row, ToldAs told_as, NullCursors nulls);

struct ScannedRow {
  ScanVerdict verdict = ScanVerdict::kSame;
  // Valid during the call.
  const PolledRow& row;
  const JudgedRow& judged;
};

// What is lent outlives it. REQUIRES of every call: the engine is at the table, in a poll whose
// transaction was handed over.
class ChunkScan {
 public:
  ChunkScan(PollEngine* engine, RowComparison* comparison)
      : engine_(*engine), comparison_(*comparison) {}

  struct Chunk {
    size_t rows = 0;
    bool at_end = false;
    // Of the last row.
    std::vector<std::string> last_key;
  };
  absl::StatusOr<Chunk> Rows(size_t table, const TableSettings& settings,
                             const v1::TableSchema& schema, const PageOrder& order,
                             const std::function<void(const ScannedRow&)>& take);
  // Of keys that are known, those that the source has no row of.
  absl::StatusOr<std::vector<KnownKey>> Gone(size_t table, const v1::TableSchema& schema,
                                             const std::vector<KnownKey>& asked);

 private:
  PollEngine& engine_;
  RowComparison& comparison_;
};

// Whether a scan of the table is to begin by itself. Pure.
bool ScanIsDue(const PollSettings& settings, const v1::KeyScanState& scan, int64_t clock_us);
void BeginScan(bool ordered, int64_t clock_us, v1::KeyScanState* scan);

// A scan whose differences are told. One for each table; forgets nothing that matters when it is
// made anew from the state.
class KeyScan {
 public:
  KeyScan(PollEngine* engine, RowComparison* comparison)
      : engine_(*engine), comparison_(*comparison), chunks_(engine, comparison) {}

  // One chunk of at most `rows_max` rows, or of as many known keys that are asked for; adds what
  // differs to `sink`, and notes how far it is. Returns their number. REQUIRES: the state's scan
  // runs, and rows_max > 0.
  absl::StatusOr<size_t> Step(size_t table, const TableSettings& settings,
                              const v1::TableSchema& schema, uint32_t rows_max, int64_t clock_us,
                              v1::PolledTableState* state, ChangeSink* sink);
  // The next chunk is of another table, or of another poll's beginning.
  void Forget() { keys_.clear(); }

 private:
  absl::StatusOr<size_t> Remove(size_t table, const v1::TableSchema& schema, uint32_t rows_max,
                                int64_t clock_us, v1::PolledTableState* state, ChangeSink* sink);

  PollEngine& engine_;
  RowComparison& comparison_;
  ChunkScan chunks_;
  std::deque<KnownKey> keys_;
};

}  // namespace tidemark::capture::poll
