#include "store/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/reason.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "store/disk_error.h"
#include "store/open_options.h"

namespace tidemark::store {
namespace {

// What stands in the folder before it is opened.
enum class Found { kNothing, kUnfinished, kStore };

absl::Status NotAStore(const std::string& path, std::string_view found) {
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kStoreDamaged,
      fmt::format("{} is not a store of Tidemark: {}. Give an empty or a new folder", path, found),
      {{"path", path}, {"found", std::string(found)}});
}

absl::Status MakeFolder(rocksdb::Env* env, const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const rocksdb::Status made = env->CreateDirIfMissing(path.substr(0, slash));
    if (!made.ok()) return DiskError(made, "make the store's folder", path);
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

absl::StatusOr<Found> LookAtFolder(const StoreOptions& options, rocksdb::Env* env) {
  std::vector<std::string> names;
  const rocksdb::Status listed = env->GetChildren(options.path, &names);
  if (listed.IsNotFound() || listed.IsPathNotFound())
    names.clear();
  else if (!listed.ok())
    return DiskError(listed, "list the store's folder", options.path);
  std::erase_if(names, [](const std::string& name) { return name == "." || name == ".."; });
  if (std::find(names.begin(), names.end(), "CURRENT") == names.end()) {
    // RocksDB makes these before CURRENT, so a crash may leave them alone.
    std::erase_if(names, [](const std::string& name) {
      return name == "LOCK" || name == "IDENTITY" || name == "lost+found" ||
             name.starts_with("LOG") || name.starts_with("MANIFEST-") || name.ends_with(".dbtmp");
    });
    if (names.empty()) return Found::kNothing;
    return NotAStore(options.path, fmt::format("it holds {}", names.front()));
  }
  std::vector<std::string> families;
  const rocksdb::Status read =
      rocksdb::DB::ListColumnFamilies(DatabaseOptions(options), options.path, &families);
  if (!read.ok()) return DiskError(read, "read the list of families", options.path);
  if (std::find(families.begin(), families.end(), kMetaFamily) != families.end()) {
    return Found::kStore;
  }
  const auto ours = Families();
  for (const std::string& family : families) {
    if (std::none_of(ours.begin(), ours.end(), [&](const auto& f) { return f.name == family; })) {
      return NotAStore(options.path, fmt::format("its database holds a family named {}", family));
    }
  }
  return Found::kUnfinished;
}

// Read before the database is opened for writing, since that alone may rewrite files.
absl::Status CheckFormat(const StoreOptions& options) {
  rocksdb::DBOptions database = DatabaseOptions(options);
  database.create_if_missing = false;
  database.create_missing_column_families = false;
  const auto all = Families();
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {all.front(), all.back()};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(database, options.path, families, &handles, &opened);
  if (!status.ok()) return DiskError(status, "open the store", options.path);
  const std::unique_ptr<rocksdb::DB> rocks(opened);
  std::string value;
  const rocksdb::Status read =
      rocks->Get(rocksdb::ReadOptions(), handles.back(), FormatKey(), &value);
  for (rocksdb::ColumnFamilyHandle* handle : handles) rocks->DestroyColumnFamilyHandle(handle);
  if (read.IsNotFound()) return absl::OkStatus();
  if (!read.ok()) return DiskError(read, "read the store's format", options.path);
  if (value.size() != 4) return DamagedError("its format version is unreadable", options.path);
  const uint32_t found = ReadBig32(value.data());
  if (found <= kFormatVersion) return absl::OkStatus();
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kStoreFormatNewer,
      fmt::format("the store in {} has format {}, this program knows formats up to {}. Run the "
                  "version that wrote it, or a newer one",
                  options.path, found, kFormatVersion),
      {{"path", options.path},
       {"found", std::to_string(found)},
       {"known", std::to_string(kFormatVersion)}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const StoreOptions& options) {
  rocksdb::Env* env = options.env != nullptr ? options.env : rocksdb::Env::Default();
  const absl::StatusOr<Found> found = LookAtFolder(options, env);
  if (!found.ok()) return found.status();
  if (*found == Found::kStore) {
    if (absl::Status status = CheckFormat(options); !status.ok()) return status;
  } else if (options.read_only) {
    return NotAStore(options.path, "there is no database in it");
  } else if (absl::Status status = MakeFolder(env, options.path); !status.ok()) {
    return status;
  }
  std::unique_ptr<Database> database(new Database(options));
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      options.read_only ? rocksdb::DB::OpenForReadOnly(DatabaseOptions(options), options.path,
                                                       Families(), &database->families_, &opened)
                        : rocksdb::DB::Open(DatabaseOptions(options), options.path, Families(),
                                            &database->families_, &opened);
  database->rocks_.reset(opened);
  if (!status.ok()) return DiskError(status, "open the store", options.path);
  if (absl::Status written = database->WriteFormat(); !written.ok()) return written;
  return database;
}

Database::~Database() {
  if (rocks_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : families_) rocks_->DestroyColumnFamilyHandle(family);
  rocks_->Close();
}

absl::Status Database::WriteFormat() {
  const absl::StatusOr<std::string> known = ReadMeta(FormatKey());
  if (!known.ok() && !absl::IsNotFound(known.status())) return known.status();
  std::string value;
  AppendBig32(&value, kFormatVersion);
  // A store of an older format is of this one from now on.
  if (read_only() || (known.ok() && *known == value)) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  batch.Put(meta(), FormatKey(), value);
  return Write(&batch, /*sync=*/true);
}

absl::Status Database::Failed(const rocksdb::Status& status, std::string_view doing) {
  std::lock_guard lock(failure_mutex_);
  failure_ = status;
  failed_ = true;
  return Error(status, doing);
}

absl::Status Database::GoOnAfterFailure() {
  rocksdb::Status status = rocks_->Resume();
  if (status.ok()) status = rocks_->Flush(rocksdb::FlushOptions(), families_);
  std::lock_guard lock(failure_mutex_);
  // RocksDB is busy while it looks by itself, every few seconds, whether there is space again.
  if (status.IsBusy()) status = failure_;
  if (!status.ok()) {
    return Error(status, status.severity() >= rocksdb::Status::kFatalError
                             ? "go on after a failed write (restart once the disk works; what was "
                               "synced is safe)"
                             : "go on after a failed write");
  }
  failed_ = false;
  return absl::OkStatus();
}

absl::Status Database::Write(rocksdb::WriteBatch* batch, bool sync) {
  if (failed_) {
    if (absl::Status status = GoOnAfterFailure(); !status.ok()) return status;
  }
  rocksdb::WriteOptions options;
  options.sync = sync;
  std::lock_guard lock(write_mutex_);
  const rocksdb::Status status = rocks_->Write(options, batch);
  return status.ok() ? absl::OkStatus() : Failed(status, "write");
}

absl::Status Database::SyncWal() {
  if (failed_) {
    if (absl::Status status = GoOnAfterFailure(); !status.ok()) return status;
  }
  const rocksdb::Status status = rocks_->SyncWAL();
  return status.ok() ? absl::OkStatus() : Failed(status, "sync");
}

absl::StatusOr<std::string> Database::ReadMeta(std::string_view key) const {
  std::string value;
  const rocksdb::Status status = rocks_->Get(rocksdb::ReadOptions(), meta(), key, &value);
  if (status.IsNotFound()) return absl::NotFoundError("no such key");
  if (!status.ok()) return Error(status, "read");
  return value;
}

absl::Status Database::DropFiles(rocksdb::ColumnFamilyHandle* family, const std::string& from,
                                 const std::string& to) {
  const rocksdb::Slice begin(from);
  const rocksdb::Slice end(to);
  return Error(rocksdb::DeleteFilesInRange(rocks_.get(), family, &begin, &end, false),
               "drop files");
}

absl::Status Database::Error(const rocksdb::Status& status, std::string_view doing) const {
  return DiskError(status, doing, path());
}

absl::Status Database::Damaged(std::string_view found) const { return DamagedError(found, path()); }

}  // namespace tidemark::store
