// Which announcement of a table holds, where transactions are sent while they are in progress.
//
// pgoutput announces a table before its first change in each streamed transaction, and once for all
// others together; and anew when its definition changed. What a streamed transaction announced
// holds for the others as well, once it has committed: of all that were sent, the last. But they
// are not applied in the order in which they were sent:
//
// - Those of a streamed transaction are applied with its rows, at its commit. One that was sent
//   later, and applied before, holds again behind it (the list of columns that is published may
//   change beside a transaction that writes to the table).
// - In a subtransaction that was rolled back, one may tell a shape that never was; yet it is not
//   repeated for the rest of the transaction, nor behind it. It is held back until a change names
//   its table, unless another one comes before: if its shape never was, one does.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "capture/postgres/relation_cache.h"

namespace tidemark::capture::postgres {

// A table as it was announced.
struct Announcement {
  // Its place in the order in which all messages were sent.
  uint64_t sent = 0;
  RelationDescription description;
};

// Pure; owned by one thread. Memory: one description of each table.
class HeldAnnouncements {
 public:
  // It is applied now, over `before`; null: the table was not known.
  void Applied(uint64_t sent, uint32_t oid, const RelationDescription* before);
  // What is to be applied before a change of this table.
  std::optional<Announcement> Take(uint32_t oid);

  // The changes of a streamed transaction follow.
  void BeginReplay() { replay_.emplace(); }
  // In a subtransaction that was rolled back. REQUIRES: within a replay.
  void HoldBack(Announcement announcement);
  // Null: nothing is held back of the table in this replay. REQUIRES: within one.
  const RelationDescription* Find(uint32_t oid) const;
  // The transaction has committed.
  void EndReplay();

 private:
  using Held = absl::flat_hash_map<uint32_t, Announcement>;

  struct Replay {
    Held held;
    absl::flat_hash_set<uint32_t> applied;
  };

  static std::optional<Announcement> TakeFrom(uint32_t oid, Held* held);

  // Which announcement of a table is applied.
  absl::flat_hash_map<uint32_t, uint64_t> applied_;
  // Newer ones, for what follows behind a replay.
  Held held_;
  std::optional<Replay> replay_;
};

}  // namespace tidemark::capture::postgres
