// Makes what the initial snapshot needs, in the only order that works (H2): the publication, then
// the slot with its exported snapshot.
#pragma once

#include <memory>
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
// when it is absent, but for a standby (PUBLICATION_MISSING). `sql` is a session of the feed's
// role.
absl::StatusOr<std::vector<SourceTable>> PreparePublication(Connection* sql,
                                                            const std::string& publication,
                                                            std::span<const TablePattern> patterns,
                                                            bool standby, absl::Time deadline);

// The checks of PreparePublication without its change: what would be refused.
absl::Status CheckPublication(Connection* sql, const std::string& publication,
                              std::span<const TablePattern> patterns, bool standby,
                              absl::Time deadline);

absl::Status DropSlot(Connection* sql, const std::string& slot, absl::Time deadline);

// Slot creation waits for every transaction that runs when it begins. `synced`: standbys that are
// set up for it keep a copy, which lives on when they are promoted (17 and newer, on a primary).
absl::Status SendCreateSlot(Connection* replication, const std::string& slot, bool synced);
absl::StatusOr<std::optional<CreatedSlot>> CollectCreatedSlot(Connection* replication,
                                                              absl::Time deadline);
// What the creation on the session `walsender_pid` waits for, in words; empty when it is not known.
absl::StatusOr<std::string> WhatCreationWaitsFor(Connection* sql, int walsender_pid,
                                                 absl::Time deadline);
// The same on a standby, where the primary has to say first which transactions run.
absl::StatusOr<std::string> WhatStandbyWaitsFor(Connection* sql, absl::Time deadline);

// The snapshot that a standby exports with a slot is of the place that its decoding has come to. By
// then the replay may be ahead of that, and have removed rows which the snapshot sees; nobody held
// them. The session that this gives does, from before the slot is begun until it is released, or
// the server ends it: in the latter case ReleaseRows fails, with an error that is retried.
absl::StatusOr<std::unique_ptr<Connection>> HoldRows(const Target& target,
                                                     Interruption* interruption,
                                                     absl::Time deadline);
// Once the snapshot was imported.
absl::Status ReleaseRows(std::unique_ptr<Connection> holder, absl::Time deadline);

}  // namespace tidemark::capture::postgres
