#include "capture/postgres/held_announcements.h"

#include <utility>

namespace tidemark::capture::postgres {

void HeldAnnouncements::Applied(uint64_t sent, uint32_t oid, const RelationDescription* before) {
  uint64_t& applied = applied_[oid];
  if (!replay_) {
    held_.erase(oid);
  } else {
    replay_->held.erase(oid);
    // What is held of the table is newer than that.
    if (replay_->applied.insert(oid).second && before != nullptr && !held_.contains(oid)) {
      held_[oid] = {applied, *before};
    }
  }
  applied = sent;
}

std::optional<Announcement> HeldAnnouncements::TakeFrom(uint32_t oid, Held* held) {
  const auto found = held->find(oid);
  if (found == held->end()) return std::nullopt;
  Announcement announcement = std::move(found->second);
  held->erase(found);
  return announcement;
}

std::optional<Announcement> HeldAnnouncements::Take(uint32_t oid) {
  return TakeFrom(oid, replay_ ? &replay_->held : &held_);
}

void HeldAnnouncements::HoldBack(Announcement announcement) {
  const uint32_t oid = announcement.description.oid;
  replay_->held[oid] = std::move(announcement);
}

const RelationDescription* HeldAnnouncements::Find(uint32_t oid) const {
  const auto found = replay_->held.find(oid);
  return found == replay_->held.end() ? nullptr : &found->second.description;
}

void HeldAnnouncements::EndReplay() {
  Replay replay = *std::exchange(replay_, std::nullopt);
  for (const uint32_t oid : replay.applied) {
    const auto held = held_.find(oid);
    if (held != held_.end() && held->second.sent < applied_.at(oid)) held_.erase(held);
  }
  for (auto& [oid, announcement] : replay.held) {
    const auto applied = applied_.find(oid);
    if (applied != applied_.end() && applied->second > announcement.sent) continue;
    const auto [held, is_new] = held_.try_emplace(oid);
    if (is_new || held->second.sent < announcement.sent) held->second = std::move(announcement);
  }
}

}  // namespace tidemark::capture::postgres
