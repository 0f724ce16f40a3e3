#include "capture/postgres/slot_healing.h"

#include <fmt/format.h>

#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// A slot under the feed's name in this cluster and database was made for the feed: it was captured
// through it, or a healing was about to make it.
bool IsOurs(const v1::Checkpoint& checkpoint, const ServerFacts& server,
            const std::string& slot_name) {
  const v1::PostgresCheckpoint& recorded = checkpoint.postgres();
  if (checkpoint.broken().prepared_in() == PlaceText(server)) return true;
  return recorded.slot() == slot_name && CheckSameDatabase(recorded, server).ok();
}

bool WasCarriedOver(const v1::PostgresCheckpoint& recorded, Lsn checkpoint_lsn,
                    const ServerFacts& server, const SlotFacts& slot, bool keeps_tables) {
  return keeps_tables && recorded.slot() == slot.name && recorded.database() == server.database &&
         slot.confirmed_flush.has_value() && *slot.confirmed_flush >= checkpoint_lsn;
}

}  // namespace

std::string PlaceText(const ServerFacts& server) {
  return server.system_identifier + "/" + server.database;
}

bool KeepsTables(const std::map<std::pair<std::string, std::string>, v1::TableState>& states,
                 const std::optional<Publication>& publication) {
  if (!publication) return false;
  bool any = false;
  for (const SourceTable& table : publication->tables) {
    const auto state = states.find({table.schema, table.table});
    if (state == states.end() || state->second.postgres().oid() == 0) continue;
    if (state->second.postgres().oid() != table.oid) return false;
    any = true;
  }
  return any;
}

absl::StatusOr<SlotHealing> DecideSlotHealing(const v1::Checkpoint& checkpoint, Lsn checkpoint_lsn,
                                              const ServerFacts& server,
                                              const std::string& slot_name,
                                              const std::optional<SlotFacts>& slot,
                                              bool publication_exists, bool keeps_tables) {
  const v1::PostgresCheckpoint& recorded = checkpoint.postgres();
  const std::string& why = checkpoint.broken().reason();
  const bool replaced = why == reason::kSourceReplaced;
  if (!replaced) {
    if (absl::Status same = CheckSameDatabase(recorded, server); !same.ok()) return same;
  }
  if (!slot) return SlotHealing::kMake;
  if (absl::Status kind = CheckSlotKind(*slot, server.database); !kind.ok()) return kind;
  const bool carried_over =
      replaced && WasCarriedOver(recorded, checkpoint_lsn, server, *slot, keeps_tables);
  if (!carried_over && !IsOurs(checkpoint, server, slot_name)) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSlotForeign,
        fmt::format("slot {} exists at a server that the feed was not captured from: it may be "
                    "another consumer's. Configure another slot name, or, if nobody needs it, run "
                    "SELECT pg_drop_replication_slot({})",
                    slot_name, QuoteLiteral(slot_name)),
        {{"slot", slot_name}});
  }
  if (absl::Status free = CheckSlotFree(*slot); !free.ok()) return free;
  if (IsLost(*slot) || !publication_exists) return SlotHealing::kReplace;
  // What it holds is of another history than what is stored, and in part the same.
  const bool other_history =
      replaced || why == reason::kSourceRewound || recorded.timeline() != server.timeline;
  // At or before the checkpoint it would send again what is stored.
  if (other_history || *slot->confirmed_flush <= checkpoint_lsn) return SlotHealing::kReplace;
  return SlotHealing::kGoOn;
}

}  // namespace tidemark::capture::postgres
