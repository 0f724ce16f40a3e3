// Deletes at the source what is durable here, in a session of its own and in small transactions:
// each holds its transaction id, and its locks, for as long as it deletes kTrimRowsMax rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/changelog/pull_scope.h"
#include "capture/changelog/settings.h"
#include "capture/changelog/statements.h"
#include "capture/postgres/connection.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::changelog {

inline constexpr uint32_t kTrimRowsMax = 2000;
inline constexpr absl::Duration kTrimTimeout = absl::Seconds(10);
// After an error that may pass.
inline constexpr absl::Duration kTrimAgain = absl::Seconds(10);

// Which rows may go: what `durable` tells, but for what was known to be gone when `trimmed` was
// durable. Nothing where `durable` tells nothing whole. Pure.
absl::StatusOr<PullScope> TrimScope(const v1::ChangelogCheckpoint& trimmed,
                                    const v1::ChangelogCheckpoint& durable, Strategy strategy);

// Thread rule: one thread at a time.
class Trimmer {
 public:
  Trimmer(postgres::Target target, const Statements& statements, Strategy strategy,
          postgres::Interruption* interruption);

  // All that it tells is fsynced here.
  void Durable(const v1::ChangelogCheckpoint& durable);
  // There may be something to delete.
  bool due(absl::Time now) const { return wanted_ && now >= again_; }
  // Deletes some, and says how many. An error that may pass is tried again later; any other one is
  // returned.
  absl::StatusOr<uint64_t> Step(absl::Time now);

 private:
  absl::StatusOr<uint64_t> Delete();

  const postgres::Target target_;
  const Statements statements_;
  const Strategy strategy_;
  postgres::Interruption* const interruption_;
  std::unique_ptr<postgres::Connection> session_;
  v1::ChangelogCheckpoint trimmed_;
  v1::ChangelogCheckpoint goal_;
  bool wanted_ = false;
  absl::Time again_ = absl::InfinitePast();
};

}  // namespace tidemark::capture::changelog
