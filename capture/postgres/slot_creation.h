// Makes what the initial snapshot needs, in the only order that works (H2): the publication, then
// the slot with its exported snapshot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/publication.h"

namespace tidemark::capture::postgres {

struct CreatedSlot {
  // Transactions that commit behind it are streamed; those before it are in the snapshot.
  Lsn consistent = 0;
  // Valid until the next command on the replication session.
  std::string snapshot;
};

// The tables of the snapshot, once the publication is known to hold them. Makes the publication
// when it is absent. `sql` is a session of the feed's role.
absl::StatusOr<std::vector<SourceTable>> PreparePublication(Connection* sql,
                                                            const std::string& publication,
                                                            std::span<const TablePattern> patterns,
                                                            absl::Time deadline);

// The checks of PreparePublication without its change: what would be refused.
absl::Status CheckPublication(Connection* sql, const std::string& publication,
                              std::span<const TablePattern> patterns, absl::Time deadline);

absl::Status DropSlot(Connection* sql, const std::string& slot, absl::Time deadline);

// Slot creation waits for every transaction that runs when it begins.
absl::Status SendCreateSlot(Connection* replication, const std::string& slot);
absl::StatusOr<std::optional<CreatedSlot>> CollectCreatedSlot(Connection* replication,
                                                              absl::Time deadline);
// What the creation on the session `walsender_pid` waits for, in words; empty when it is not known.
absl::StatusOr<std::string> WhatCreationWaitsFor(Connection* sql, int walsender_pid,
                                                 absl::Time deadline);

}  // namespace tidemark::capture::postgres
