// PostgresSource: going on behind a break, in a new generation.
#include <fmt/format.h>

#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/slot_healing.h"
#include "capture/postgres/source.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

std::string CauseOf(const v1::BreakRecord& broken) {
  return fmt::format("the feed is healed after {}", broken.reason());
}

// Whatever was known of its rows, changes of them may be missing.
void ReadAgain(const std::string& cause, int64_t now_us, v1::TableState* state) {
  const bool empties = state->reading().empties();
  v1::TableReading* reading = state->mutable_reading();
  reading->Clear();
  reading->set_cause(cause);
  reading->set_empties(empties);
  reading->set_started_us(now_us);
}

}  // namespace

absl::Status PostgresSource::OpenBroken(const v1::Checkpoint& checkpoint) {
  const v1::BreakRecord& broken = checkpoint.broken();
  if (broken.policy() != v1::RECOVERY_POLICY_RESNAPSHOT &&
      broken.policy() != v1::RECOVERY_POLICY_GAP_AND_CONTINUE) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, broken.reason(),
        fmt::format("{} (found at {}; what the source looks like since then does not undo it)",
                    broken.message(),
                    absl::FormatTime(absl::RFC3339_sec, absl::FromUnixMicros(broken.time_us()),
                                     absl::UTCTimeZone())));
  }
  absl::StatusOr<Position> position = Position::FromBytes(checkpoint.position());
  if (!position.ok()) return position.status();
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  absl::StatusOr<std::optional<SlotFacts>> slot = LookAtSlot(deadline);
  if (!slot.ok()) return slot.status();
  absl::StatusOr<std::optional<Publication>> publication =
      ReadPublication(catalog_.get(), publication_name_, deadline);
  if (!publication.ok()) return publication.status();
  absl::StatusOr<SlotHealing> healing =
      DecideSlotHealing(checkpoint, position->engine_low(), server_, slot_name_, *slot,
                        publication->has_value(), KeepsTables(table_states_, *publication));
  if (!healing.ok()) return healing.status();
  healing_ = checkpoint;
  const bool known = broken.prepared_in() == PlaceText(server_) ||
                     CheckSameDatabase(checkpoint.postgres(), server_).ok();
  publication_made_ = !*publication || (known && checkpoint.postgres().publication_made());
  behind_gap_ = true;
  head_ = *position;
  snapshot_time_us_ = checkpoint.snapshot_time_us();
  drop_slot_first_ = *healing == SlotHealing::kReplace;
  if (*healing == SlotHealing::kGoOn) return GoOnBehindGap(*(*slot)->confirmed_flush);
  const bool prepared = broken.prepared_in() == PlaceText(server_);
  Enter(prepared ? Phase::kConfirmed : Phase::kPreparing,
        fmt::format("{}: about to make slot {}", CauseOf(broken), slot_name_));
  return absl::OkStatus();
}

// From here on, a slot of that name there is the feed's own.
CaptureBatch PostgresSource::PrepareHealing() {
  CaptureBatch batch;
  healing_->mutable_broken()->set_prepared_in(PlaceText(server_));
  healing_->mutable_postgres()->set_publication_made(publication_made_);
  batch.checkpoint = *healing_;
  Enter(Phase::kAwaitingConfirm, "waiting until the store has noted what is about to be made");
  return batch;
}

absl::Status PostgresSource::PreparePublicationAgain(Connection* catalog, absl::Time deadline) {
  absl::StatusOr<std::optional<Publication>> publication =
      ReadPublication(catalog, publication_name_, deadline);
  if (!publication.ok() || *publication) return publication.status();
  return PreparePublication(catalog, publication_name_, selection_.patterns(), server_.in_recovery,
                            deadline)
      .status();
}

absl::Status PostgresSource::GoOnBehindGap(Lsn consistent) {
  consistent_ = start_ = checkpoint_ = consistent;
  if (healing_->broken().policy() == v1::RECOVERY_POLICY_RESNAPSHOT) {
    if (absl::Status status = MarkTablesForReading(); !status.ok()) return status;
  }
  status_.GoesOnBehind(consistent);
  Enter(Phase::kHealed, fmt::format("going on behind {}", LsnText(consistent)));
  return absl::OkStatus();
}

absl::Status PostgresSource::MarkTablesForReading() {
  const int64_t now_us = absl::ToUnixMicros(absl::Now());
  const std::string cause = CauseOf(healing_->broken());
  if (table_states_.empty()) {
    // A feed from before tables had states.
    const absl::Time deadline = absl::Now() + kConnectTimeout;
    absl::StatusOr<Connection*> catalog = Catalog(deadline);
    if (!catalog.ok()) return catalog.status();
    absl::StatusOr<std::vector<SourceTable>> tables =
        ReadMatchingTables(*catalog, selection_.patterns(), deadline);
    if (!tables.ok()) return tables.status();
    for (const SourceTable& table : *tables) {
      v1::TableState& state = table_states_[{table.schema, table.table}];
      state.set_schema_name(table.schema);
      state.set_table_name(table.table);
      state.set_followed(true);
    }
  }
  for (auto& [name, state] : table_states_) {
    if (selection_.Wants(name.first, name.second)) ReadAgain(cause, now_us, &state);
  }
  return absl::OkStatus();
}

CaptureBatch PostgresSource::FinishHealing() {
  const v1::BreakRecord broken = std::exchange(healing_, std::nullopt)->broken();
  ++generation_;
  const Position from = std::exchange(head_, Position::Of(generation_, consistent_));
  CaptureBatch batch;
  v1::GapRecord& gap = batch.gap.emplace();
  gap.set_from(std::string(from.bytes()));
  gap.set_to(std::string(head_.bytes()));
  gap.set_reason(broken.reason());
  gap.set_policy(broken.policy());
  gap.set_time_us(absl::ToUnixMicros(absl::Now()));
  gap.set_detail(
      fmt::format("{}. Capture went on behind {} in generation {}; {}", broken.message(),
                  LsnText(consistent_), generation_,
                  broken.policy() == v1::RECOVERY_POLICY_RESNAPSHOT
                      ? "every table is read again, and what it really differs in comes as changes"
                      : "what was changed in between is lost"));
  batch.checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
  for (const auto& [name, state] : table_states_) batch.table_states.push_back(state);
  batch.made = true;
  Enter(Phase::kStartStreaming, "healed");
  return batch;
}

}  // namespace tidemark::capture::postgres
