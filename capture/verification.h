// The comparison of current rows with the source: how it is ordered, where its findings go, and
// what all who compare say in the same words.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "capture/row_image.h"
#include "proto/table_name.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark::capture {

// What a source puts at most before it asks for room again.
inline constexpr size_t kFindingsAtOnceMax = 1'100;

// Where findings go. Thread rule: safe from any thread; no call waits. Whoever makes room, or wants
// no more, nudges the source.
class VerificationSink {
 public:
  virtual ~VerificationSink() = default;

  // False once End was called or nobody listens any more: the verification is to be dropped.
  virtual bool Wanted() const = 0;
  // Whether it takes kFindingsAtOnceMax more.
  virtual bool HasRoom() = 0;
  virtual void Put(v1::VerifyResponse finding) = 0;
  // Nothing follows. OK: every table that was ordered had its last record.
  virtual void End(const absl::Status& status) = 0;
};

struct VerifyOrder {
  // None: all tables of the source.
  std::vector<TablePattern> tables;
  std::shared_ptr<VerificationSink> sink;
};

// What follows is pure, and safe from any thread.

// How a verification ends that lost its source: SOURCE_UNREACHABLE.
absl::Status VerificationCutOff();

// TABLE_UNKNOWN where an order names what the feed does not have, or nothing is left to compare.
// `found` says of each pattern whether a table fits it, `any` whether one is to be compared.
absl::Status CheckSelected(const std::vector<TablePattern>& patterns,
                           const std::vector<bool>& found, bool any);

// Counts a row that both have and that differs in these columns, names them in its finding, and
// returns the kind: incomplete where all of them are values that nobody ever told.
v1::DifferenceKind CountDifferent(const std::vector<ColumnDifference>& columns,
                                  v1::VerifyTotals* totals, v1::VerifyResponse* finding);

// The last record of a table; `status` says why it could not be compared to its end.
v1::VerifyResponse EndOfTable(std::string table, v1::VerifyTotals totals,
                              const absl::Status& status, absl::Time now);

}  // namespace tidemark::capture
