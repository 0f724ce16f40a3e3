#include "store/disk_error.h"

#include <fmt/format.h>

#include <string>

#include "proto/reason.h"

namespace tidemark::store {
namespace {

// RocksDB reports a taken lock as an IO error; only its text tells.
bool IsLocked(const rocksdb::Status& status, std::string_view text) {
  return (status.IsIOError() || status.IsBusy()) && text.find("lock") != text.npos &&
         text.find("LOCK") != text.npos;
}

}  // namespace

absl::Status DamagedError(std::string_view found, std::string_view path) {
  return ErrorWithReason(
      absl::StatusCode::kDataLoss, reason::kStoreDamaged,
      fmt::format("the store in {} is damaged: {}. Restore it from a backup, or move the folder "
                  "away to capture anew from a fresh snapshot",
                  path, found),
      {{"path", std::string(path)}, {"found", std::string(found)}});
}

absl::Status DiskError(const rocksdb::Status& status, std::string_view doing,
                       std::string_view path) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  const ErrorDetails details = {{"path", std::string(path)}, {"cause", text}};
  if (status.IsNoSpace()) {
    return ErrorWithReason(absl::StatusCode::kResourceExhausted, reason::kStoreFull,
                           fmt::format("cannot {}: the disk that holds {} is full ({}). Free space "
                                       "or shorten the retention; work goes on by itself then",
                                       doing, path, text),
                           details);
  }
  if (IsLocked(status, text)) {
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kStoreLocked,
                           fmt::format("cannot {}: another process uses the store in {} ({}). Stop "
                                       "it, or give this one a folder of its own",
                                       doing, path, text),
                           details);
  }
  if (status.IsCorruption()) {
    // A missing file is looked for under LevelDB's name last, and reported by it.
    std::string found = text;
    if (const size_t at = found.find(".ldb:"); at != found.npos) found.replace(at, 5, ".sst:");
    return DamagedError(found, path);
  }
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kStoreIo,
                         fmt::format("cannot {} in {}: {}", doing, path, text), details);
}

}  // namespace tidemark::store
