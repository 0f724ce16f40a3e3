// Turns RocksDB's statuses into ours. Pure; safe from any thread.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "rocksdb/status.h"

namespace tidemark::store {

// `doing` completes "cannot …"; `path` is the store's folder. Reasons: STORE_FULL
// (RESOURCE_EXHAUSTED), STORE_LOCKED (FAILED_PRECONDITION), STORE_DAMAGED (DATA_LOSS), STORE_IO
// (UNAVAILABLE).
absl::Status DiskError(const rocksdb::Status& status, std::string_view doing,
                       std::string_view path);

absl::Status DamagedError(std::string_view found, std::string_view path);

}  // namespace tidemark::store
