// PostgresSource: taking away what was made for the feed, when the feed is dropped.
#include <fmt/format.h>

#include <utility>

#include "absl/time/clock.h"
#include "capture/owned_objects.h"
#include "capture/postgres/slot.h"
#include "capture/postgres/slot_healing.h"
#include "capture/postgres/source.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/table_lock.h"

namespace tidemark::capture::postgres {
namespace {

constexpr char kDoing[] = "dropping what was made for the feed";
// A session that was closed holds its slot until the server notices.
constexpr absl::Duration kSlotFreeTimeout = absl::Seconds(10);

// SLOT_FOREIGN where it is not of the feed's kind, SLOT_ACTIVE where it does not become free.
absl::StatusOr<bool> WaitUntilFree(Connection* sql, const std::string& slot,
                                   const std::string& database) {
  const absl::Time deadline = absl::Now() + kSlotFreeTimeout;
  while (true) {
    const auto facts = ReadSlot(sql, slot, deadline + kConnectTimeout);
    if (!facts.ok()) return facts.status();
    if (!facts->has_value()) return false;
    if (absl::Status kind = CheckSlotKind(**facts, database); !kind.ok()) return kind;
    const absl::Status free = CheckSlotFree(**facts);
    if (free.ok()) return true;
    if (absl::Now() >= deadline) return free;
    const auto waited = sql->Query("SELECT pg_sleep(0.05)", kDoing, deadline + kConnectTimeout);
    if (!waited.ok()) return waited.status();
  }
}

// The slot comes last: it cannot be brought back.
std::string DropSql(const std::string& slot, const std::string& publication) {
  const std::string drop_slot = fmt::format(
      "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {}",
      QuoteLiteral(slot));
  if (publication.empty()) return drop_slot;
  return fmt::format("{}DROP PUBLICATION IF EXISTS {}; {}; COMMIT",
                     BeginWaitingSql(kLockWaitLong, "BEGIN READ WRITE"),
                     QuoteIdentifier(publication), drop_slot);
}

}  // namespace

absl::StatusOr<DropOutcome> PostgresSource::DropOwned(
    const v1::Checkpoint& checkpoint, const std::function<absl::Status()>& decided) {
  std::lock_guard lock(session_mutex_);
  CloseSessions();
  interruption_.Consume();
  absl::StatusOr<DropOutcome> outcome = DropHere(checkpoint, decided);
  interruption_.Consume();
  CloseSessions();
  return outcome;
}

absl::StatusOr<DropOutcome> PostgresSource::DropHere(const v1::Checkpoint& checkpoint,
                                                     const std::function<absl::Status()>& decided) {
  const v1::PostgresCheckpoint& recorded = checkpoint.postgres();
  const std::string& prepared_in = checkpoint.broken().prepared_in();
  if (recorded.slot().empty() && prepared_in.empty()) {
    const absl::Status noted = decided();
    return noted.ok() ? absl::StatusOr<DropOutcome>(DropOutcome()) : noted;
  }
  if (absl::Status connected = Connect(); !connected.ok()) return connected;
  // As slot_healing.h has it.
  const bool healing = prepared_in == PlaceText(server_);
  if (absl::Status same = CheckSameDatabase(recorded, server_); !same.ok() && !healing) return same;
  const std::string slot = healing ? slot_name_ : recorded.slot();
  const std::string publication = healing ? publication_name_ : recorded.publication();
  const absl::StatusOr<bool> has_slot = WaitUntilFree(catalog_.get(), slot, server_.database);
  if (!has_slot.ok()) return has_slot.status();
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  const auto published = ReadPublication(catalog_.get(), publication, deadline);
  if (!published.ok()) return published.status();
  // A standby has that of its primary.
  const bool drops_publication =
      published->has_value() && recorded.publication_made() && !server_.in_recovery;
  if (absl::Status noted = decided(); !noted.ok()) return noted;
  absl::Status dropped =
      catalog_->Query(DropSql(slot, drops_publication ? publication : ""), kDoing, deadline)
          .status();
  if (!dropped.ok()) return dropped;
  DropOutcome outcome;
  if (*has_slot) outcome.dropped.push_back(fmt::format("slot {}", slot));
  if (drops_publication) outcome.dropped.push_back(fmt::format("publication {}", publication));
  if (published->has_value() && !drops_publication) {
    outcome.left.push_back(
        PublicationText(publication, server_.database, recorded.publication_made()));
  }
  return outcome;
}

}  // namespace tidemark::capture::postgres
