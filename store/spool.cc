#include "store/spool.h"

#include <fmt/format.h>

#include <memory>
#include <string>

namespace tidemark::store {
namespace {

void DeleteParts(const Database& database, FeedId feed, uint64_t spool_id,
                 rocksdb::WriteBatch* batch) {
  batch->DeleteRange(database.spool(), SpoolPrefix(feed, spool_id),
                     SpoolPrefix(feed, spool_id + 1));
}

}  // namespace

absl::Status Spool::Open() {
  const absl::StatusOr<std::string> next = database_.ReadMeta(NextSpoolIdKey(feed_));
  if (absl::IsNotFound(next.status())) return absl::OkStatus();
  if (!next.ok()) return next.status();
  if (next->size() != 8) return database_.Damaged("the next spool id is unreadable");
  next_id_ = ReadBig64(next->data());
  return absl::OkStatus();
}

absl::Status Spool::Write(uint64_t handle, const std::vector<EncodedRun>& runs,
                          const TableOfSchema& table_of, rocksdb::WriteBatch* batch) {
  const auto open = open_.find(handle);
  SpooledParts parts = open == open_.end() ? SpooledParts{} : open->second;
  if (open == open_.end()) {
    // In the same batch as the first part, so that an id under which anything lies is never given
    // again.
    parts.spool_id = next_id_;
    std::string value;
    AppendBig64(&value, next_id_ + 1);
    batch->Put(database_.meta(), NextSpoolIdKey(feed_), value);
  }
  for (const EncodedRun& run : runs) {
    if (!parts.schemas.Add(run, table_of)) {
      return absl::InvalidArgumentError(
          fmt::format("a part of the large transaction {} names a schema that was not given, or is "
                      "malformed",
                      handle));
    }
    batch->Put(database_.spool(),
               SpoolKey{feed_, parts.spool_id, run.first_sequence, run.part}.Encode(), run.bytes);
    parts.bytes += run.bytes.size();
  }
  if (absl::Status status = database_.Write(batch, /*sync=*/false); !status.ok()) return status;
  if (open == open_.end()) ++next_id_;
  open_[handle] = std::move(parts);
  return absl::OkStatus();
}

absl::StatusOr<const SpooledParts*> Spool::Find(uint64_t handle) const {
  const auto open = open_.find(handle);
  if (open != open_.end()) return &open->second;
  return absl::InvalidArgumentError(
      fmt::format("no parts of a large transaction were given under handle {}", handle));
}

absl::Status Spool::Abort(uint64_t handle) {
  const auto open = open_.find(handle);
  if (open == open_.end()) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  DeleteParts(database_, feed_, open->second.spool_id, &batch);
  if (absl::Status status = database_.Write(&batch, /*sync=*/false); !status.ok()) return status;
  open_.erase(open);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Spool::TakeId() {
  std::string value;
  AppendBig64(&value, next_id_ + 1);
  rocksdb::WriteBatch batch;
  batch.Put(database_.meta(), NextSpoolIdKey(feed_), value);
  if (absl::Status status = database_.Write(&batch, /*sync=*/false); !status.ok()) return status;
  return next_id_++;
}

absl::Status Spool::AbortAll() {
  while (!open_.empty()) {
    if (absl::Status status = Abort(open_.begin()->first); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RemoveSpoolLeftovers(Database* database, FeedId feed) {
  const std::unique_ptr<rocksdb::Iterator> at(
      database->rocks()->NewIterator(rocksdb::ReadOptions(), database->spool()));
  const std::string prefix = FeedPrefix(feed);
  rocksdb::WriteBatch batch;
  at->Seek(prefix);
  while (at->Valid() && at->key().starts_with(prefix)) {
    const auto key = SpoolKey::Decode(at->key().ToStringView());
    if (!key) return database->Damaged("a key of the spool is unreadable");
    const auto committed = database->ReadMeta(SpooledKey(feed, key->spool_id));
    if (absl::IsNotFound(committed.status())) {
      DeleteParts(*database, feed, key->spool_id, &batch);
    } else if (!committed.ok()) {
      return committed.status();
    }
    at->Seek(SpoolPrefix(feed, key->spool_id + 1));
  }
  if (!at->status().ok()) return database->Error(at->status(), "look for parts without a commit");
  if (batch.Count() == 0) return absl::OkStatus();
  return database->Write(&batch, /*sync=*/true);
}

}  // namespace tidemark::store
