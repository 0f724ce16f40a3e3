// What becomes of a feed's slot where capture goes on behind a break: the log does not go on behind
// the checkpoint, and somebody decided that a gap may be left. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "capture/postgres/server_facts.h"
#include "capture/postgres/slot.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

enum class SlotHealing {
  // There is none: it is made.
  kMake,
  // The feed's own, and of no use: it is dropped and made again.
  kReplace,
  // The feed's own, behind the checkpoint: capture goes on where it stands. Somebody moved it, or
  // made it again, or a healing that did not come to its end made it.
  kGoOn,
};

// Cluster and database, for BreakRecord.prepared_in.
std::string PlaceText(const ServerFacts& server);

// `checkpoint` has a BreakRecord. Errors: SOURCE_REPLACED where that is not what the break is,
// SLOT_FOREIGN for a slot that is not the feed's own, SLOT_ACTIVE while somebody uses it; nothing
// is to be touched then.
absl::StatusOr<SlotHealing> DecideSlotHealing(const v1::Checkpoint& checkpoint, Lsn checkpoint_lsn,
                                              const ServerFacts& server,
                                              const std::string& slot_name,
                                              const std::optional<SlotFacts>& slot,
                                              bool publication_exists);

}  // namespace tidemark::capture::postgres
