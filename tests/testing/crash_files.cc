#include "tests/testing/crash_files.h"

#include <algorithm>
#include <utility>

#include "rocksdb/system_clock.h"

namespace tidemark::testing {
namespace {

using rocksdb::DirFsyncOptions;
using rocksdb::FileOptions;
using rocksdb::FSDirectory;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSReadRequest;
using rocksdb::FSSequentialFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

class CheckedSequentialFile : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  CheckedSequentialFile(std::unique_ptr<FSSequentialFile> file, const CrashFiles& files,
                        std::string path)
      : FSSequentialFileOwnerWrapper(std::move(file)), files_(files), path_(std::move(path)) {}

  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* debug) override {
    IOStatus status = files_.Check(DiskOperation::kRead, path_);
    if (!status.ok()) return status;
    return FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, debug);
  }

 private:
  const CrashFiles& files_;
  const std::string path_;
};

class CheckedRandomAccessFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  CheckedRandomAccessFile(std::unique_ptr<FSRandomAccessFile> file, const CrashFiles& files,
                          std::string path)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), files_(files), path_(std::move(path)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* debug) const override {
    IOStatus status = files_.Check(DiskOperation::kRead, path_);
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::Read(offset, n, options, result, scratch, debug);
  }

  IOStatus MultiRead(FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* debug) override {
    IOStatus status = files_.Check(DiskOperation::kRead, path_);
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
  }

 private:
  const CrashFiles& files_;
  const std::string path_;
};

class VolatileFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  VolatileFile(std::unique_ptr<FSWritableFile> file, CrashFiles* files, std::string path,
               VolatileDisk::ContentPtr content)
      : FSWritableFileOwnerWrapper(std::move(file)),
        files_(*files),
        path_(std::move(path)),
        content_(std::move(content)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = files_.Check(DiskOperation::kAppend, path_);
    if (!status.ok()) return status;
    // A full disk takes what still fits.
    const uint64_t fits = files_.TakeSpace(data.size());
    status = target()->Append(Slice(data.data(), fits), options, debug);
    if (!status.ok()) return status;
    files_.disk().Appended(content_, fits);
    return fits == data.size() ? IOStatus::OK() : IOStatus::NoSpace("no space left", path_);
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("direct writes");
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&,
                            const rocksdb::DataVerificationInfo&, IODebugContext*) override {
    return IOStatus::NotSupported("direct writes");
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = files_.Check(DiskOperation::kAppend, path_);
    if (status.ok()) status = target()->Truncate(size, options, debug);
    if (status.ok()) files_.disk().Truncated(content_, size);
    return status;
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    const uint64_t size = files_.disk().Size(content_);
    IOStatus status = files_.Check(DiskOperation::kSync, path_);
    if (!status.ok()) return status;
    files_.disk().Synced(content_, size);
    files_.CountSync();
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }
  // A hint to write back: it promises nothing.
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }

 private:
  CrashFiles& files_;
  const std::string path_;
  const VolatileDisk::ContentPtr content_;
};

class VolatileFolder : public rocksdb::FSDirectoryWrapper {
 public:
  VolatileFolder(std::unique_ptr<FSDirectory> folder, CrashFiles* files, std::string path)
      : FSDirectoryWrapper(std::move(folder)), files_(*files), path_(std::move(path)) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    IOStatus status = files_.Check(DiskOperation::kSyncFolder, path_);
    if (!status.ok()) return status;
    files_.disk().SyncedFolder(path_);
    files_.CountSync();
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  CrashFiles& files_;
  const std::string path_;
};

class ImpatientClock : public rocksdb::SystemClockWrapper {
 public:
  explicit ImpatientClock(std::shared_ptr<CrashFiles> files)
      : SystemClockWrapper(rocksdb::SystemClock::Default()), files_(std::move(files)) {}

  const char* Name() const override { return "ImpatientClock"; }
  void SleepForMicroseconds(int micros) override {
    constexpr int kWithoutPower = 1000;
    target_->SleepForMicroseconds(files_->powered() ? micros : std::min(micros, kWithoutPower));
  }

 private:
  const std::shared_ptr<CrashFiles> files_;
};

class CrashEnv : public rocksdb::EnvWrapper {
 public:
  explicit CrashEnv(const std::shared_ptr<CrashFiles>& files)
      : EnvWrapper(rocksdb::NewCompositeEnv(files)) {
    file_system_ = files;
    system_clock_ = std::make_shared<ImpatientClock>(files);
  }
};

}  // namespace

void CrashFiles::SetSpaceLeft(std::optional<uint64_t> bytes) {
  std::lock_guard lock(mutex_);
  space_left_ = bytes;
}

void CrashFiles::FailWhen(std::function<bool(DiskOperation, const std::string&)> fails) {
  std::lock_guard lock(mutex_);
  fails_ = std::move(fails);
}

IOStatus CrashFiles::Check(DiskOperation operation, const std::string& path) const {
  if (!powered_) return IOStatus::IOError("the power is lost", path);
  std::function<bool(DiskOperation, const std::string&)> fails;
  {
    std::lock_guard lock(mutex_);
    fails = fails_;
  }
  if (fails && fails(operation, path)) return IOStatus::IOError("injected failure", path);
  return IOStatus::OK();
}

uint64_t CrashFiles::TakeSpace(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!space_left_) return bytes;
  const uint64_t taken = std::min(bytes, *space_left_);
  *space_left_ -= taken;
  return taken;
}

IOStatus CrashFiles::NewSequentialFile(const std::string& path, const FileOptions& options,
                                       std::unique_ptr<FSSequentialFile>* file,
                                       IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kOpen, path);
  std::unique_ptr<FSSequentialFile> opened;
  if (status.ok()) status = target_->NewSequentialFile(path, options, &opened, debug);
  if (status.ok()) *file = std::make_unique<CheckedSequentialFile>(std::move(opened), *this, path);
  return status;
}

IOStatus CrashFiles::NewRandomAccessFile(const std::string& path, const FileOptions& options,
                                         std::unique_ptr<FSRandomAccessFile>* file,
                                         IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kOpen, path);
  std::unique_ptr<FSRandomAccessFile> opened;
  if (status.ok()) status = target_->NewRandomAccessFile(path, options, &opened, debug);
  if (status.ok()) {
    *file = std::make_unique<CheckedRandomAccessFile>(std::move(opened), *this, path);
  }
  return status;
}

IOStatus CrashFiles::NewWritableFile(const std::string& path, const FileOptions& options,
                                     std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kOpen, path);
  if (!status.ok()) return status;
  // Opening would empty the old content in place, under its link too.
  if (disk_.Find(path) != nullptr) status = DeleteFile(path, IOOptions(), debug);
  std::unique_ptr<FSWritableFile> made;
  if (status.ok()) status = target_->NewWritableFile(path, options, &made, debug);
  if (status.ok()) {
    *file = std::make_unique<VolatileFile>(std::move(made), this, path, disk_.Made(path));
  }
  return status;
}

IOStatus CrashFiles::ReopenWritableFile(const std::string& path, const FileOptions& options,
                                        std::unique_ptr<FSWritableFile>* file,
                                        IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kOpen, path);
  if (!status.ok()) return status;
  VolatileDisk::ContentPtr content = disk_.Find(path);
  std::unique_ptr<FSWritableFile> opened;
  status = target_->ReopenWritableFile(path, options, &opened, debug);
  if (!status.ok()) return status;
  if (content == nullptr) content = disk_.Made(path);
  *file = std::make_unique<VolatileFile>(std::move(opened), this, path, std::move(content));
  return status;
}

IOStatus CrashFiles::NewDirectory(const std::string& path, const IOOptions& options,
                                  std::unique_ptr<FSDirectory>* folder, IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kOpen, path);
  std::unique_ptr<FSDirectory> opened;
  if (status.ok()) status = target_->NewDirectory(path, options, &opened, debug);
  if (status.ok()) *folder = std::make_unique<VolatileFolder>(std::move(opened), this, path);
  return status;
}

IOStatus CrashFiles::GetChildren(const std::string& path, const IOOptions& options,
                                 std::vector<std::string>* names, IODebugContext* debug) {
  const IOStatus status = Check(DiskOperation::kRead, path);
  return status.ok() ? target_->GetChildren(path, options, names, debug) : status;
}

IOStatus CrashFiles::DeleteFile(const std::string& path, const IOOptions& options,
                                IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kRemove, path);
  if (!status.ok()) return status;
  const VolatileDisk::ContentPtr content = disk_.Find(path);
  status = target_->DeleteFile(path, options, debug);
  if (status.ok()) disk_.Removed(path);
  return status;
}

IOStatus CrashFiles::Truncate(const std::string& path, size_t size, const IOOptions& options,
                              IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kAppend, path);
  const VolatileDisk::ContentPtr content = disk_.Find(path);
  if (status.ok()) status = target_->Truncate(path, size, options, debug);
  if (status.ok() && content != nullptr) disk_.Truncated(content, size);
  return status;
}

IOStatus CrashFiles::RenameFile(const std::string& from, const std::string& to,
                                const IOOptions& options, IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kRename, from);
  if (!status.ok()) return status;
  // Both are known before they change.
  const VolatileDisk::ContentPtr moved = disk_.Find(from);
  const VolatileDisk::ContentPtr replaced = disk_.Find(to);
  status = target_->RenameFile(from, to, options, debug);
  if (status.ok()) disk_.Renamed(from, to);
  return status;
}

IOStatus CrashFiles::LinkFile(const std::string& from, const std::string& to,
                              const IOOptions& options, IODebugContext* debug) {
  IOStatus status = Check(DiskOperation::kRename, from);
  if (status.ok()) status = target_->LinkFile(from, to, options, debug);
  if (status.ok()) disk_.Linked(from, to);
  return status;
}

IOStatus CrashFiles::NumFileLinks(const std::string& path, const IOOptions& options,
                                  uint64_t* count, IODebugContext* debug) {
  const VolatileDisk::ContentPtr content = disk_.Find(path);
  const IOStatus status = target_->NumFileLinks(path, options, count, debug);
  if (status.ok() && content != nullptr) --*count;
  return status;
}

std::unique_ptr<rocksdb::Env> NewCrashEnv(const std::shared_ptr<CrashFiles>& files) {
  return std::make_unique<CrashEnv>(files);
}

}  // namespace tidemark::testing
