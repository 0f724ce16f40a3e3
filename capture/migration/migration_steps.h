// The way of a feed from polling to the log, as decisions over plain values.
//
//   (polled) ─ order ─▶ PREPARING ─ slot made ─▶ PREPARED ─ a poll began and ended ─▶ OVERLAPPED
//       ▲                   │                        │                                    │
//       └── removed ── ROLLING_BACK ◀──── order to roll back ─────────────────────────────┤
//                                                                                         ▼
//                  (captured from the log) ◀─ every table was compared ─────────── SWITCHED
//
// The phase is in the checkpoint (MigrationRecord), and is durable before anything is done by it.
// Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture {

// Polls that have to end behind the making of the slot: the first one may have begun before it.
inline constexpr uint64_t kPollsBehindSlot = 2;
// So many polls are tried for one whose snapshot is a place in the log.
inline constexpr int kExactSwitchesTried = 20;

enum class MigrationStep {
  kPoll,        // nothing else
  kPrepare,     // make publication and slot, as far as they are not there
  kSwitch,      // go on from the log
  kTakeAway,    // remove what was made
  kFollowsLog,  // is done
};

struct MigrationFacts {
  v1::MigrationPhase phase = v1::MIGRATION_PHASE_UNSPECIFIED;
  // The phase is in the store, and no poll is handed over in part.
  bool settled = false;
  // The last attempt at a step is long enough ago.
  bool due = true;
  // What the last poll saw is known, and no switch was tried by it.
  bool has_fresh_poll = false;
};
MigrationStep NextStep(const MigrationFacts& facts);

// The phase behind a poll, the `polls`th that ended since the slot was there.
v1::MigrationPhase PhaseBehindPoll(v1::MigrationPhase phase, uint64_t polls);

// What an order comes to in a phase.
enum class OrderAnswer {
  kBegin,     // a migration is to be checked and begun
  kRollBack,  // what was prepared is to be taken away
  kUnderWay,  // it is being done already
  kRefuse,    // see `why`
};
struct OrderVerdict {
  OrderAnswer answer = OrderAnswer::kRefuse;
  // What was found, and what to do.
  std::string why;
};
OrderVerdict JudgeOrder(const v1::Checkpoint& checkpoint, bool roll_back, bool has_end);

// preparing, prepared, overlapped, switched, rolling_back; empty for none.
std::string PhaseWord(v1::MigrationPhase phase);

// A checkpoint by which the log source makes its slot, or goes on where its slot stands, in the
// generation behind that of `polled`, and reads every table again beside the stream.
v1::Checkpoint CheckpointForLog(const v1::Checkpoint& polled);

// MIGRATION_REFUSED.
absl::Status MigrationRefused(const std::string& feed, const std::string& why);

}  // namespace tidemark::capture
