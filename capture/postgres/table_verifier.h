// Compares the known rows of tables with the source, chunk by chunk, and names the keys that
// differ. Says what is to be read next and judges what was read; the reading itself, beside the
// stream, is the table keeper's.
//
//   shape ─▶ the rows of the source, in its order ─▶ the keys that are known, in theirs ─▶ totals
//
// The first pass finds what is missing or different, the second what is extra. A key that was
// changed while it was read is asked for again in a later chunk, each by itself up to
// kLooksMax times.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/known_keys.h"
#include "capture/known_rows.h"
#include "capture/postgres/chunk_comparison.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/table_chunk.h"
#include "capture/postgres/table_selection.h"
#include "capture/verification.h"
#include "proto/position.h"
#include "tidemark/v1/admin.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

inline constexpr absl::Duration kChunkRetryPeriod = absl::Milliseconds(20);
inline constexpr absl::Duration kTableRetryPeriod = absl::Seconds(1);
// How often one row is looked at, and one chunk is read, before it is given up.
inline constexpr int kLooksMax = 40;
inline constexpr int kChunkFailuresMax = 250;

// Thread rule: one thread at a time. What is lent outlives it. One order at a time; what is still
// under way when it is destroyed ends with SOURCE_UNREACHABLE.
class TableVerifier {
 public:
  using Name = std::pair<std::string, std::string>;
  struct Lent {
    KnownRows* known = nullptr;
    ChunkComparison* comparison = nullptr;
    const TableSelection* selection = nullptr;
    // What becomes of the tables, and how they look; as of the newest look at the catalog.
    const std::map<Name, v1::TableState>* states = nullptr;
    const std::map<Name, SourceTable>* tables = nullptr;
  };

  explicit TableVerifier(const Lent& lent) : lent_(lent) {}
  ~TableVerifier();

  // REQUIRES: the catalog was looked at, and no chunk of this is being read.
  void Begin(VerifyOrder order);
  bool active() const { return order_ && order_->sink->Wanted(); }

  // What is to be read next; nothing while there is nothing to do, or it has to wait: until
  // next_due(), for room in the sink, or for the reading of the table. Errors are the store's.
  absl::StatusOr<std::optional<ChunkOrder>> Next(size_t rows_max, absl::Time now);
  absl::Time next_due() const {
    return due_ == absl::InfinitePast() ? absl::InfiniteFuture() : due_;
  }
  // Until then was waited; Next was called if that was possible.
  void Passed(absl::Time now) {
    if (due_ <= now) due_ = absl::InfinitePast();
  }

  // What became of the chunk that Next named last: it was read, and holds at this position; it says
  // nothing; it could not be read. Errors are the store's.
  absl::Status Compare(const TableChunk& chunk, const Position& at, absl::Time now);
  void ReadAgain(absl::Time now);
  // It has to wait for something at the source.
  void Waits(const std::string& what, absl::Time now);
  void Failed(const absl::Status& status, absl::Time now);

 private:
  enum class Pass { kShape, kRows, kKeys };
  // A key that was touched each time it was looked at.
  struct Look {
    KnownKey key;
    int looks = 0;
  };
  // The table that is being compared.
  struct Subject {
    Name name;
    Pass pass = Pass::kShape;
    Relation relation;  // as of the first chunk
    v1::VerifyTotals totals;
    int failures = 0;  // of the present chunk
    bool told_waiting = false;

    std::vector<std::string> after_key;  // where the rows go on
    std::string keys_from;               // where the known keys go on
    std::deque<KnownKey> keys;
    bool pass_at_end = false;  // but for `again`
    std::deque<Look> again;
  };

  absl::StatusOr<std::deque<Name>> Select(const std::vector<TablePattern>& patterns) const;
  // Why the table cannot be compared.
  absl::Status Refusal(const Name& name) const;
  // Nothing: a pass, or the table, is through.
  absl::StatusOr<std::optional<ChunkOrder>> NextOfTable(size_t rows_max);
  absl::Status RefillKeys();
  void AskAgain(ChunkOrder* order);
  void AskKnown(ChunkOrder* order);
  void EndPass();
  void AskAsBefore();
  void TellWaiting(const std::string& what);
  void EndTable(const absl::Status& status);
  void End(const absl::Status& status);

  absl::Status CheckShape(const TableChunk& chunk) const;
  absl::Status CompareRows(const TableChunk& chunk);
  absl::Status CompareKeys(const TableChunk& chunk);
  void AskNextTime(const absl::flat_hash_set<std::string>& came);
  void Judge(const Relation& relation, const ComparedRow& row);
  void LookAgain(KnownKey key);
  void Report(v1::DifferenceKind kind, std::string key, v1::VerifyResponse finding);

  const Lent lent_;
  std::optional<VerifyOrder> order_;
  std::deque<Name> left_;
  std::optional<Subject> subject_;
  // In the chunk under way, and how often each was looked at before.
  std::vector<KnownKey> asked_;
  absl::flat_hash_map<std::string, int> looks_;
  bool touched_ = false;  // some of its keys
  Position at_;           // where it holds
  absl::Time due_ = absl::InfinitePast();
};

}  // namespace tidemark::capture::postgres
