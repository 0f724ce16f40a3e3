// The database's side of a move from polling to the log, but for what the log source does itself:
// whether it can be done, where the log is to go on, and taking away what was made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/migration/switch_place.h"
#include "capture/postgres/lsn.h"
#include "proto/table_name.h"
#include "tidemark/v1/config.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture {

// A polled table, and the columns that its rows are told apart by, in the order of the key; none
// where nothing was told of it yet and the configuration names none.
struct PolledKey {
  std::string schema;
  std::string table;
  std::vector<std::string> key;
};

// What a migration that may begin will find and make.
struct LogPlan {
  v1::PostgresIdentity server;
  std::string slot;
  // Empty: there is one, which is not the feed's.
  std::string publication_to_make;
};

// What became of the slot.
struct SlotMove {
  enum class Kind {
    kMoved,        // it stands at `at`, behind everything that the poll saw
    kMovedInPart,  // it stands at `at`, and holds more of that: ask again, of any later poll
    kNotExact,     // the poll's snapshot is no place in the log; it stands where it stood
    kNotYet,       // what the poll may have seen is not flushed yet: ask again
    kGone,         // slot or publication are not there any more, or of no use: see `why`
  };
  Kind kind = Kind::kNotYet;
  postgres::Lsn at = 0;
  // Nothing that the poll did not see was passed over by this call.
  bool exact = false;
  std::string why;
};

// Thread rule: Check on a thread of its own; Interrupt from any; the rest on one thread. Every call
// ends in bounded time, and writes nothing but what it says. The longest is MoveSlot: the server
// decodes one portion of the slot twice, for at most 5 minutes each.
class LogSide {
 public:
  virtual ~LogSide() = default;

  // Whether the log source would work, and has the same rows under the same keys. MIGRATION_REFUSED
  // with everything that was found and the SQL that mends it; errors of the connection as they are.
  virtual absl::StatusOr<LogPlan> Check(const std::vector<PolledKey>& tables,
                                        const v1::PostgresIdentity& polled) = 0;
  // Moves the slot to where the log goes on behind a poll that saw this, by one portion at most.
  // `exactly`: not at all where its snapshot is no place in the log, which of a standby's is not
  // known.
  virtual absl::StatusOr<SlotMove> MoveSlot(const PollSight& sight, bool exactly) = 0;
  // Drops the slot, and the publication where the record says that it was made for the feed.
  virtual absl::Status TakeAway(const v1::MigrationRecord& record) = 0;

  // Makes calls in progress fail soon; where there is none, the next MoveSlot or TakeAway.
  virtual void Interrupt() = 0;
};

// Messages of the slot that are decoded at a time, up to the end of a transaction: one for its
// beginning, its end and each of its changes. Of a slot that holds more, what the poll saw is
// passed over portion by portion, one in a call.
inline constexpr uint64_t kMessagesAtOnce = 1'000'000;

// REQUIRES: the configuration has postgres. `tables`: those of it.
std::unique_ptr<LogSide> MakeLogSide(const v1::FeedConfig& config, std::vector<TablePattern> tables,
                                     uint64_t messages_at_once = kMessagesAtOnce);

}  // namespace tidemark::capture
