// Compares the known rows of polled tables with the source, chunk by chunk under the snapshots of
// polls, and names the keys that differ. Changes nothing.
//
//   the rows of the source, by key ─▶ those that waited for a later poll ─▶ the keys that are known
//            ▲                                     │
//            └────── where too many wait, some ────┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/poll/key_scan.h"
#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_settings.h"
#include "capture/poll/row_comparison.h"
#include "capture/verification.h"
#include "proto/position.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark::capture::poll {

// Rows of a chunk; its end may be told with it.
inline constexpr uint32_t kVerifyRowsMax = 1000;
static_assert(kVerifyRowsMax + 1 <= kFindingsAtOnceMax);
static_assert(kKeysAskedMax <= kVerifyRowsMax);
// Polls in which a row is looked at that is stamped above the fence each time. Then it counts as
// not comparable.
inline constexpr int kLooksMax = 40;
// Rows whose keys are held because they wait for a later poll. Where no chunk has room any more, no
// further rows are read until some of those were compared, or counted as not comparable.
inline constexpr size_t kRowsWaitingMax = 10'000;
static_assert(kRowsWaitingMax >= kVerifyRowsMax);

// Thread rule: one thread at a time. What is lent outlives it. One order at a time; what is still
// under way when it is destroyed ends with SOURCE_UNREACHABLE.
class PollVerifier {
 public:
  PollVerifier(const PollSettings* settings, PollEngine* engine, RowComparison* comparison)
      : settings_(*settings),
        engine_(*engine),
        comparison_(*comparison),
        chunks_(engine, comparison) {}
  ~PollVerifier();

  // REQUIRES: !active().
  void Begin(VerifyOrder order);
  bool active() const { return order_.has_value(); }

  // The table of which something can be compared under the snapshot of this poll; nothing when
  // there is no room for findings, or a later poll has to come first.
  std::optional<size_t> Next(uint64_t poll);
  // Why the table that Next named cannot be compared.
  void Refuse(const absl::Status& status) { EndTable(status); }
  // One chunk of it; `at` is where this holds. Returns the rows that were read.
  absl::StatusOr<size_t> Step(const v1::TableSchema& schema, uint64_t poll, const Position& at);

 private:
  enum class Pass { kRows, kAgain, kKeys };
  struct Look {
    std::vector<std::string> key;
    int looks = 0;
    // The poll of the last of them, in which it is not to be looked at any more.
    uint64_t looked_in = 0;
  };
  struct Subject {
    size_t table = 0;
    std::vector<std::string> after_key;
    bool rows_at_end = false;
    // By `looked_in`; at most kRowsWaitingMax, and within a step kKeysAskedMax more.
    std::deque<Look> again;
    std::string keys_from;
    v1::VerifyTotals totals;
  };

  absl::StatusOr<std::deque<size_t>> Select(const std::vector<TablePattern>& patterns) const;
  static Pass PassOf(const Subject& subject);
  absl::StatusOr<size_t> StepRows(const v1::TableSchema& schema, uint64_t poll);
  absl::StatusOr<size_t> StepAgain(const v1::TableSchema& schema, uint64_t poll);
  absl::StatusOr<size_t> StepKeys(const v1::TableSchema& schema);
  void Judge(const v1::TableSchema& schema, const ScannedRow& row, int looks, uint64_t poll);
  void Report(v1::DifferenceKind kind, std::string key, v1::VerifyResponse finding);
  void EndTable(const absl::Status& status);
  void End(const absl::Status& status);

  const PollSettings& settings_;
  PollEngine& engine_;
  RowComparison& comparison_;
  ChunkScan chunks_;
  std::optional<VerifyOrder> order_;
  std::deque<size_t> left_;
  std::optional<Subject> subject_;
  Position at_;
};

}  // namespace tidemark::capture::poll
