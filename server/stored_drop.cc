#include "server/stored_drop.h"

#include <string>
#include <vector>

#include "capture/owned_objects.h"
#include "server/feed_drop.h"

namespace tidemark {
namespace {

v1::DropFeedResponse Left(const std::vector<std::string>& owned) {
  v1::DropFeedResponse response;
  response.mutable_left()->Assign(owned.begin(), owned.end());
  return response;
}

}  // namespace

absl::StatusOr<std::optional<v1::DropFeedResponse>> DropStored(store::Store& store,
                                                               const v1::DropFeedRequest& request) {
  const std::string& name = request.feed();
  const auto feed = store.FindFeed(name);
  if (absl::IsNotFound(feed.status())) {
    // A drop that a crash cut short.
    const auto drops = store.Drops();
    if (!drops.ok()) return drops.status();
    const auto drop = drops->find(name);
    if (drop == drops->end()) return std::nullopt;
    v1::Checkpoint checkpoint;
    *checkpoint.mutable_postgres() = drop->second.left();
    const std::vector<std::string> owned = capture::OwnedObjects(checkpoint);
    if (!request.keep_slot() && !owned.empty()) return DropWithoutSource(name, owned);
    if (absl::Status forgotten = store.ForgetDrop(name); !forgotten.ok()) return forgotten;
    return Left(owned);
  }
  if (!feed.ok()) return feed.status();
  const std::vector<std::string> owned = capture::OwnedObjects((*feed)->checkpoint());
  if (!request.keep_slot() && !owned.empty()) return DropWithoutSource(name, owned);
  if (absl::Status removed = (*feed)->Remove(); !removed.ok()) return removed;
  return Left(owned);
}

}  // namespace tidemark
