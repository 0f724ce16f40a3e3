// The guarantees of proto/README.md as checks over what a subscriber recorded. The text of an error
// is the definition of the guarantee, followed by what was found. A RecordedStream runs Ordered,
// Whole, Once, Progressing, Schemas and Gaps by itself, a LiveSubscriber Resumable and, where
// somebody vouches for what was committed (witness.h), Complete; a LiveTidemark that is killed runs
// Durable. Bounded needs to know what was asked for.
// Pure, but for CheckResumable, which calls back.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/testing/recorded_stream.h"
#include "tests/testing/sql_oracle.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::testing {

// (position, sequence) rises strictly through a stream.
absl::Status CheckOrdered(const RecordedStream& stream);

// A commit is never presented as finished before all of it came; a cursor exists only at a commit
// boundary.
absl::Status CheckWhole(const RecordedStream& stream);

// Nothing committed at the source after the start point and inside the filter is missing, and
// nothing else is there. `oracle`: exactly what the stream must have seen. By completeness class:
// LOG_EXACT compares transactions in commit order, with their end LSN; CHANGELOG compares the
// changes of every key in order; the other classes compare what the changes leave of every key.
absl::Status CheckComplete(const RecordedStream& stream,
                           const std::vector<OracleTransaction>& oracle,
                           v1::CompletenessClass completeness = v1::COMPLETENESS_CLASS_LOG_EXACT);

// The same for LOG_EXACT over these transactions alone.
absl::Status CompareWithOracle(const std::vector<RecordedTransaction>& seen,
                               const std::vector<OracleTransaction>& oracle);

// A client that stores the cursor with its effects sees each change once; what comes again after a
// break is equal to what came before.
absl::Status CheckOnce(const RecordedStream& stream);

// A table's schema changes only where a SchemaChange record says so: right before the first change
// under the new schema.
absl::Status CheckSchemas(const RecordedStream& stream);

// Loud: where a stream goes from one generation to the next, a Gap record stands between; but once
// where the feed is moved to the log.
absl::Status CheckGaps(const RecordedStream& stream);

// Opens a stream behind a cursor and returns the position of the first transaction that it delivers
// (empty: none); or the error that it got.
using ResumeAt = std::function<absl::StatusOr<std::string>(const std::string& cursor)>;
// Every cursor ever handed out resumes exactly behind its commit, or fails with a reason that says
// what to do.
// `cursors_max`: so many of them are tried, from the first to the last.
absl::Status CheckResumable(const RecordedStream& stream, const ResumeAt& resume_at,
                            size_t cursors_max = SIZE_MAX);

// A read up to a bound delivers exactly the transactions at or before it, then ends with OK and a
// cursor. `positions_within`: those of the transactions at or before the bound, in order.
absl::Status CheckBounded(const RecordedStream& stream, const std::string& bound,
                          const std::vector<std::string>& positions_within);

// The cursor of an idle or fully filtered subscriber moves: every record that ends an interval of
// silence carries one, and no interval is longer than the server promised.
absl::Status CheckProgressing(const RecordedStream& stream);

// What was seen at one moment, in the order of the looks.
struct DurabilityLook {
  uint64_t confirmed_lsn = 0;  // as the source's slot says; read first
  uint64_t durable_lsn = 0;    // what the store would hold after a power loss; read second
};
// The source is told "confirmed" only for what is fsynced here.
absl::Status CheckDurable(const std::vector<DurabilityLook>& looks);

}  // namespace tidemark::testing
