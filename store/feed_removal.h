// Taking a feed out of the store for good. Where something at its source goes with it, that is
// noted first: whatever a crash leaves behind the note is removed when the store is opened next.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/database.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::store {

// Fsynced. From here on the feed is dropped, unless ForgetDrop comes before the store is closed.
absl::Status NoteDrop(Database* database, std::string_view name, const v1::DropRecord& record);
absl::Status ForgetDrop(Database* database, std::string_view name);
// Nothing where no drop is noted under that name.
absl::StatusOr<std::optional<v1::DropRecord>> ReadDrop(const Database& database,
                                                       std::string_view name);

enum class DropNote { kForget, kKeep };

// All of the feed, in one step, fsynced. Its number is never given again.
absl::Status RemoveFeed(Database* database, FeedId feed, std::string_view name, DropNote note);

absl::StatusOr<std::map<std::string, v1::DropRecord>> NotedDrops(const Database& database);

// When the store is opened: removes the feeds whose drop is noted. Where something may be left at
// the source, the note stays.
absl::Status FinishDrops(Database* database);

}  // namespace tidemark::store
