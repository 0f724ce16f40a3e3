// A file system for the store that can lose power, run full and fail. Real files below a folder;
// real fsync is left out, since only the model decides what survives. Safe from any thread.
//
//   CrashFileSystem disk(scratch / "links");
//   auto store = Store::Open({.path = ..., .env = disk.env()});
//   ...
//   disk.LosePower();                   // from now on every call fails
//   store.reset();
//   disk.PowerOn();                     // what was not synced is gone
//   store = Store::Open(...);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace rocksdb {
class Env;
}

namespace tidemark::testing {

class CrashFiles;

enum class DiskOperation { kOpen, kRead, kAppend, kSync, kSyncFolder, kRename, kRemove };

class CrashFileSystem {
 public:
  // `links` is a folder of its own, on the file system of the files.
  explicit CrashFileSystem(const std::filesystem::path& links);
  ~CrashFileSystem();
  CrashFileSystem(const CrashFileSystem&) = delete;
  CrashFileSystem& operator=(const CrashFileSystem&) = delete;

  // For StoreOptions::env; lives as long as this.
  rocksdb::Env* env();

  // Every call fails from now on, those under way included; what they would have synced is not.
  void LosePower();
  // Makes the files what a disk would show after the loss: without what was not synced; with a seed
  // other than 0, with some of it (see volatile_disk.h). REQUIRES: power was lost, and the store
  // that was open is destroyed.
  void PowerOn(uint64_t seed = 0);

  // Appends fail with "no space left" once this many more bytes are written; nullopt: never.
  void SetSpaceLeft(std::optional<uint64_t> bytes);
  // Operations for which this is true fail with an I/O error and do nothing; null: none. Called on
  // any thread.
  void FailWhen(std::function<bool(DiskOperation, const std::string& path)> fails);

  // Syncs of files and folders so far.
  uint64_t syncs() const;

 private:
  std::shared_ptr<CrashFiles> files_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace tidemark::testing
