// What an operator wants of a feed that may be moved from polling to the log.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace tidemark::capture {

struct MigrationOrder {
  // Takes away again what was prepared.
  bool roll_back = false;
  // Called once, from any thread: OK once the order is durable, or why it was refused
  // (MIGRATION_REFUSED, SOURCE_UNREACHABLE). Returns at once.
  std::function<void(const absl::Status&)> done;
};

// A source that can be moved.
class Migrating {
 public:
  virtual ~Migrating() = default;
  // Safe from any thread; returns at once.
  virtual void OrderMigration(MigrationOrder order) = 0;
};

}  // namespace tidemark::capture
