// The row of a key as it stands after everything that was appended: from the tail of the log that
// is not folded yet, else from the rows. Used by the writer's thread alone.
//
// Costs nothing until it is asked; then it indexes the tail, from where it stood when it was asked
// last.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"
#include "store/change_index.h"
#include "store/database.h"
#include "store/feed_state.h"
#include "store/row_keys.h"

namespace tidemark::store {

// Runs of the tail that are indexed; about 10 MiB. Beyond it, and beyond kIndexKeysMax, the tail is
// folded instead.
inline constexpr size_t kTailRunsMax = 250'000;

class TailRows final : private NumberedRuns {
 public:
  // `fold_to_head` as FeedStore::FoldToHead. All are lent.
  TailRows(Database* database, FeedId feed, const FeedState* state, RowKeys keys,
           std::function<absl::Status()> fold_to_head);

  // As row_value.h; nullopt when there is none. `prefix` is that of the key's table.
  absl::StatusOr<std::optional<std::string>> Find(std::string_view prefix, std::string_view key);
  // Whether rows of a table are kept may have changed.
  void Forget();

 private:
  struct RunAt {
    Position position;
    uint64_t first_sequence = 0;
    uint64_t spool_id = 0;  // not 0: there
  };

  absl::StatusOr<std::string_view> Bytes(uint32_t number, uint32_t part) override;
  std::pair<Position, uint64_t> PlaceOf(uint32_t number) const override;

  absl::Status CatchUp();
  // False: no room for all of it.
  absl::StatusOr<bool> Index();
  absl::StatusOr<std::optional<std::string>> FindFolded(std::string_view key);

  Database& database_;
  const FeedId feed_;
  const FeedState& state_;
  const std::function<absl::Status()> fold_to_head_;
  RowKeys keys_;
  ChangeIndex index_{&keys_, this};
  std::vector<RunAt> runs_;
  // The transactions behind some older boundary, up to this one, are in the index.
  Position through_;
  // What Bytes gave last.
  std::string bytes_;
};

}  // namespace tidemark::store
