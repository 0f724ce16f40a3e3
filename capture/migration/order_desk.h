// Orders to move a feed, between the calls that give them and the source that carries them out.
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "capture/migration/migration_order.h"

namespace tidemark::capture {

// Thread rule: Put from any thread; the rest from the thread of the source.
class OrderDesk {
 public:
  // Refused at once while the desk is closed.
  void Put(MigrationOrder order);
  // The oldest order that waits.
  std::optional<MigrationOrder> Take();

  void Open();
  // Orders that wait, and those that come, are refused.
  void Close(const absl::Status& why);

 private:
  std::mutex mutex_;
  std::deque<MigrationOrder> orders_;
  absl::Status closed_ = absl::UnavailableError("the source was not opened yet");
};

}  // namespace tidemark::capture
