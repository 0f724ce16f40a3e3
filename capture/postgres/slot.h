// The replication slot of a feed: what the server says of it, and whether capture may go on with
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/server_facts.h"
#include "tidemark/v1/admin.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

struct SlotFacts {
  std::string name;
  std::string type;  // logical or physical
  std::string plugin;
  std::string database;
  int32_t active_pid = 0;  // 0: nobody uses it
  std::optional<Lsn> confirmed_flush;
  std::optional<Lsn> restart;
  std::string wal_status;
  std::optional<uint64_t> headroom_bytes;
  // Of the log, from restart to the server's present end.
  uint64_t retained_bytes = 0;
  // The server's flush position when this was read; of a standby, how far it has replayed.
  Lsn server_flush = 0;
  // Why the server gave the slot up, in its words; before 16 it does not say.
  std::string invalidation;
};

// The query behind ReadSlot, for those who send and collect it in two steps.
std::string SlotQuery(const std::string& name);
std::optional<SlotFacts> SlotFromRows(const std::string& name, const ResultRows& rows);
// Nothing when there is no slot of that name.
absl::StatusOr<std::optional<SlotFacts>> ReadSlot(Connection* sql, const std::string& name,
                                                  absl::Time deadline);

// Whether the log goes on exactly behind the checkpoint: the server itself does not say (E8). Where
// the timeline is another one, server.history is how the server came to it. In this order:
// SOURCE_REPLACED, SOURCE_UNREACHABLE while a standby that was started is not there yet,
// SOURCE_TIMELINE_CHANGED, SOURCE_REWOUND, SLOT_MISSING, SLOT_FOREIGN, SLOT_LOST, SLOT_ADVANCED,
// SLOT_ACTIVE. Pure.
absl::Status CheckResume(const v1::PostgresCheckpoint& checkpoint, Lsn checkpoint_lsn,
                         const ServerFacts& server, const std::string& slot_name,
                         const std::optional<SlotFacts>& slot);

// SOURCE_REPLACED when the server is another cluster, or the database another one. Pure.
absl::Status CheckSameDatabase(const v1::PostgresCheckpoint& checkpoint, const ServerFacts& server);
// SLOT_FOREIGN when `slot` is not a logical slot with pgoutput of `database`. Pure.
absl::Status CheckSlotKind(const SlotFacts& slot, const std::string& database);
// SLOT_ACTIVE, with the process. Pure.
absl::Status CheckSlotFree(const SlotFacts& slot);
// The server removed what the slot held back. It still shows a confirmed position, which says
// nothing any more. Pure.
bool IsLost(const SlotFacts& slot);

// SQL, or a comment where none can, so that the slot that is made in its place is not lost as this
// one was. Pure.
std::string SlotLostRemedy(const SlotFacts& slot, bool in_recovery);

void FillSlotStatus(const SlotFacts& slot, v1::SlotStatus* status);

}  // namespace tidemark::capture::postgres
