// What crash_file_system.h gives to RocksDB. Safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "tests/testing/crash_file_system.h"
#include "tests/testing/volatile_disk.h"

namespace tidemark::testing {

class CrashFiles : public rocksdb::FileSystemWrapper {
 public:
  explicit CrashFiles(const std::filesystem::path& links)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(links) {}

  static const char* kClassName() { return "CrashFiles"; }
  const char* Name() const override { return kClassName(); }

  VolatileDisk& disk() { return disk_; }
  void SetPower(bool on) { powered_ = on; }
  void SetSpaceLeft(std::optional<uint64_t> bytes);
  void FailWhen(std::function<bool(DiskOperation, const std::string&)> fails);
  uint64_t syncs() const { return syncs_; }

  bool powered() const { return powered_; }

  // Not OK: the operation must not be done.
  rocksdb::IOStatus Check(DiskOperation operation, const std::string& path) const;
  // How many of `bytes` still fit; they are taken.
  uint64_t TakeSpace(uint64_t bytes);
  void CountSync() { ++syncs_; }

  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override;
  // The store, as it is configured, neither reuses files nor changes them in place.
  rocksdb::IOStatus ReuseWritableFile(const std::string&, const std::string&,
                                      const rocksdb::FileOptions&,
                                      std::unique_ptr<rocksdb::FSWritableFile>*,
                                      rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::NotSupported("reuse of files");
  }
  rocksdb::IOStatus NewRandomRWFile(const std::string&, const rocksdb::FileOptions&,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>*,
                                    rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::NotSupported("files that change in place");
  }
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* folder,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Truncate(const std::string& path, size_t size,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NumFileLinks(const std::string& path, const rocksdb::IOOptions& options,
                                 uint64_t* count, rocksdb::IODebugContext* debug) override;

 private:
  VolatileDisk disk_;
  std::atomic<bool> powered_ = true;
  std::atomic<uint64_t> syncs_ = 0;
  mutable std::mutex mutex_;
  std::optional<uint64_t> space_left_;                            // protected by mutex_
  std::function<bool(DiskOperation, const std::string&)> fails_;  // protected by mutex_
};

// An environment over the files, in which RocksDB does not wait a second before it tries again what
// failed for want of power.
std::unique_ptr<rocksdb::Env> NewCrashEnv(const std::shared_ptr<CrashFiles>& files);

}  // namespace tidemark::testing
