#include "store/rows_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rocksdb/env.h"
#include "rocksdb/sst_file_writer.h"

namespace tidemark::store {
namespace {

rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

// Below the store's folder, so that a file becomes part of the database by a link.
std::string FolderOf(const Database& database) { return database.path() + "/staged"; }

bool IsSmall(const FoldedRows& rows) {
  return rows.rows.size() <= kBatchRowsMax && rows.bytes <= kBatchBytesMax;
}

}  // namespace

RowsWriter::~RowsWriter() {
  for (Staged& staged : staged_) {
    staged.rows.reset();
    staged.deleted.reset();
    RemoveFile(staged.rows_file);
    RemoveFile(staged.deleted_file);
  }
}

absl::Status RowsWriter::Stage(const FoldedRows& rows) {
  if (rows.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> file = NewFile();
  if (!file.ok()) return file.status();
  Staged& staged = staged_.emplace_back();
  staged.rows_file = *file;
  staged.truncated = rows.truncated;
  if (absl::Status s = WriteRowsFile(rows, std::nullopt, staged.rows_file); !s.ok()) return s;
  return WriteDeletedFile(rows, &staged);
}

absl::Status RowsWriter::Publish(const FoldedRows& rows, const std::optional<RowsMarker>& marker) {
  if (staged_.empty() && IsSmall(rows)) return WriteBatch(rows, marker);
  if (!rows.empty() || marker) {
    absl::StatusOr<std::string> file = NewFile();
    if (!file.ok()) return file.status();
    staged_.emplace_back().rows_file = *file;
    if (absl::Status s = WriteRowsFile(rows, marker, *file); !s.ok()) return s;
  }
  // Where files overlap, a later one wins over an earlier one.
  std::vector<std::string> files;
  for (const Staged& staged : staged_) files.push_back(staged.rows_file);
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.write_global_seqno = false;
  return Error(database_.rocks()->IngestExternalFile(database_.rows(), files, options));
}

absl::Status RowsWriter::WriteBatch(const FoldedRows& rows,
                                    const std::optional<RowsMarker>& marker) {
  rocksdb::WriteBatch batch;
  for (const std::string& prefix : rows.truncated) {
    batch.DeleteRange(database_.rows(), prefix, PrefixEnd(prefix));
  }
  for (const FoldedRow& row : rows.rows) {
    if (row.deleted) {
      batch.Delete(database_.rows(), ToSlice(row.key));
    } else {
      batch.Put(database_.rows(), ToSlice(row.key), ToSlice(row.value));
    }
  }
  if (marker) batch.Put(database_.rows(), RowsMarkerKey(feed_), marker->Encode());
  if (batch.Count() == 0) return absl::OkStatus();
  return database_.Write(&batch, false);
}

absl::StatusOr<std::string> RowsWriter::NewFile() {
  const std::string folder = FolderOf(database_);
  const rocksdb::Status made = database_.rocks()->GetEnv()->CreateDirIfMissing(folder);
  if (!made.ok()) return Error(made);
  return fmt::format("{}/{}-{}.sst", folder, feed_, next_file_++);
}

absl::Status RowsWriter::WriteRowsFile(const FoldedRows& rows,
                                       const std::optional<RowsMarker>& marker,
                                       const std::string& file) {
  const rocksdb::Options options = database_.rocks()->GetOptions(database_.rows());
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options), options, database_.rows());
  rocksdb::Status status = writer.Open(file);
  // A range does not touch the rows of its own file.
  for (size_t i = 0; status.ok() && i < rows.truncated.size(); ++i) {
    status = writer.DeleteRange(rows.truncated[i], PrefixEnd(rows.truncated[i]));
  }
  if (status.ok() && marker) status = writer.Put(RowsMarkerKey(feed_), marker->Encode());
  for (size_t i = 0; status.ok() && i < rows.rows.size(); ++i) {
    const FoldedRow& row = rows.rows[i];
    status = row.deleted ? writer.Delete(ToSlice(row.key))
                         : writer.Put(ToSlice(row.key), ToSlice(row.value));
  }
  if (status.ok()) status = writer.Finish();
  return Error(status);
}

absl::Status RowsWriter::WriteDeletedFile(const FoldedRows& rows, Staged* staged) {
  if (std::none_of(rows.rows.begin(), rows.rows.end(), [](const auto& r) { return r.deleted; })) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> file = NewFile();
  if (!file.ok()) return file.status();
  staged->deleted_file = *file;
  const rocksdb::Options options = database_.rocks()->GetOptions(database_.rows());
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options), options);
  rocksdb::Status status = writer.Open(*file);
  for (size_t i = 0; status.ok() && i < rows.rows.size(); ++i) {
    if (rows.rows[i].deleted) status = writer.Put(ToSlice(rows.rows[i].key), "");
  }
  if (status.ok()) status = writer.Finish();
  return Error(status);
}

absl::StatusOr<std::optional<std::string>> RowsWriter::Find(std::string_view key) {
  for (auto staged = staged_.rbegin(); staged != staged_.rend(); ++staged) {
    auto row = FindIn(key, staged->rows_file, &staged->rows);
    if (!row.ok() || row->has_value()) return row;
    auto deleted = FindIn(key, staged->deleted_file, &staged->deleted);
    if (!deleted.ok()) return deleted.status();
    if (deleted->has_value()) return std::nullopt;
    for (const std::string& prefix : staged->truncated) {
      if (key.starts_with(prefix)) return std::nullopt;
    }
  }
  std::string value;
  const rocksdb::Status got =
      database_.rocks()->Get(rocksdb::ReadOptions(), database_.rows(), ToSlice(key), &value);
  if (got.IsNotFound()) return std::nullopt;
  if (!got.ok()) return database_.Error(got, "read a current row");
  return value;
}

absl::StatusOr<std::optional<std::string>> RowsWriter::FindIn(
    std::string_view key, const std::string& file,
    std::unique_ptr<rocksdb::SstFileReader>* reader) {
  if (file.empty()) return std::nullopt;
  if (*reader == nullptr) {
    auto opened =
        std::make_unique<rocksdb::SstFileReader>(database_.rocks()->GetOptions(database_.rows()));
    const rocksdb::Status status = opened->Open(file);
    if (!status.ok()) return database_.Error(status, "read staged rows");
    *reader = std::move(opened);
  }
  std::unique_ptr<rocksdb::Iterator> at((*reader)->NewIterator(rocksdb::ReadOptions()));
  at->Seek(ToSlice(key));
  if (at->Valid() && at->key() == ToSlice(key)) return at->value().ToString();
  if (!at->status().ok()) return database_.Error(at->status(), "read staged rows");
  return std::nullopt;
}

void RowsWriter::RemoveFile(const std::string& file) {
  // Not there after it was ingested; what cannot be removed now is removed at the next start.
  if (!file.empty()) database_.rocks()->GetEnv()->DeleteFile(file);
}

absl::Status RowsWriter::RemoveLeftovers(Database* database) {
  rocksdb::Env* env = database->rocks()->GetEnv();
  const std::string folder = FolderOf(*database);
  std::vector<std::string> files;
  if (env->FileExists(folder).IsNotFound()) return absl::OkStatus();
  rocksdb::Status status = env->GetChildren(folder, &files);
  for (size_t i = 0; status.ok() && i < files.size(); ++i) {
    if (files[i] != "." && files[i] != "..") status = env->DeleteFile(folder + "/" + files[i]);
  }
  return database->Error(status, "remove staged rows that a crash left");
}

}  // namespace tidemark::store
