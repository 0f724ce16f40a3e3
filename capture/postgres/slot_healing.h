// What becomes of a feed's slot where capture goes on behind a break: the log does not go on behind
// the checkpoint, and somebody decided that a gap may be left. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "capture/postgres/publication.h"
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

// Whether the tables that the feed knows are, as far as `publication` holds them, there under the
// OIDs that they had, and any is: the database is what became of the captured one, by pg_upgrade
// say, which gives a cluster another identifier and keeps the OIDs of tables. Pure.
bool KeepsTables(const std::map<std::pair<std::string, std::string>, v1::TableState>& states,
                 const std::optional<Publication>& publication);

// `checkpoint` has a BreakRecord. `keeps_tables`: see above. In another cluster a slot is the
// feed's own if it was about to be made there, or if the tables are kept and it stands behind the
// checkpoint: pg_upgrade carries slots over from 17 on, and the log of the new cluster begins
// behind the end of the old one. That nothing is missing is not proved by it, so it is replaced.
// Errors: SOURCE_REPLACED where that is not what the break is, SLOT_FOREIGN for a slot that is not
// the feed's own, SLOT_ACTIVE while somebody uses it; nothing is to be touched then.
absl::StatusOr<SlotHealing> DecideSlotHealing(const v1::Checkpoint& checkpoint, Lsn checkpoint_lsn,
                                              const ServerFacts& server,
                                              const std::string& slot_name,
                                              const std::optional<SlotFacts>& slot,
                                              bool publication_exists, bool keeps_tables);

}  // namespace tidemark::capture::postgres
