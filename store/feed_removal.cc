#include "store/feed_removal.h"

#include <memory>

namespace tidemark::store {
namespace {

// Everything but the name and the note.
void StageRemoval(const Database& database, FeedId feed, rocksdb::WriteBatch* batch) {
  const std::string begin = FeedPrefix(feed);
  const std::string end = FeedPrefix(feed + 1);
  for (auto* const family :
       {database.log(), database.spool(), database.rows(), database.schemas()}) {
    batch->DeleteRange(family, begin, end);
  }
  for (const auto prefix :
       {FeedRecordKey, CheckpointKey, SnapshotWholeKey, FloorKey, NextSpoolIdKey, SpooledPrefix,
        TableStatePrefix, SamplePrefix, LostTablePrefix, GapPrefix}) {
    batch->DeleteRange(database.meta(), prefix(feed), prefix(feed + 1));
  }
}

absl::Status DropFilesOf(Database* database, FeedId feed) {
  for (auto* const family :
       {database->log(), database->spool(), database->rows(), database->schemas()}) {
    absl::Status dropped = database->DropFiles(family, FeedPrefix(feed), FeedPrefix(feed + 1));
    if (!dropped.ok()) return dropped;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status NoteDrop(Database* database, std::string_view name, const v1::DropRecord& record) {
  rocksdb::WriteBatch batch;
  batch.Put(database->meta(), DropKey(name), record.SerializeAsString());
  return database->Write(&batch, /*sync=*/true);
}

absl::Status ForgetDrop(Database* database, std::string_view name) {
  rocksdb::WriteBatch batch;
  batch.Delete(database->meta(), DropKey(name));
  return database->Write(&batch, /*sync=*/true);
}

absl::StatusOr<std::optional<v1::DropRecord>> ReadDrop(const Database& database,
                                                       std::string_view name) {
  const auto value = database.ReadMeta(DropKey(name));
  if (absl::IsNotFound(value.status())) return std::nullopt;
  if (!value.ok()) return value.status();
  v1::DropRecord record;
  if (!record.ParseFromString(*value)) return database.Damaged("the note of a drop is unreadable");
  return record;
}

absl::Status RemoveFeed(Database* database, FeedId feed, std::string_view name, DropNote note) {
  rocksdb::WriteBatch batch;
  StageRemoval(*database, feed, &batch);
  batch.Delete(database->meta(), FeedNameKey(name));
  if (note == DropNote::kForget) batch.Delete(database->meta(), DropKey(name));
  if (absl::Status status = database->Write(&batch, /*sync=*/true); !status.ok()) return status;
  return DropFilesOf(database, feed);
}

absl::StatusOr<std::map<std::string, v1::DropRecord>> NotedDrops(const Database& database) {
  std::map<std::string, v1::DropRecord> drops;
  const std::unique_ptr<rocksdb::Iterator> at(
      database.rocks()->NewIterator(rocksdb::ReadOptions(), database.meta()));
  const std::string prefix = DropKey("");
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    v1::DropRecord& record = drops[at->key().ToString().substr(prefix.size())];
    if (!record.ParseFromArray(at->value().data(), static_cast<int>(at->value().size()))) {
      return database.Damaged("the note of a drop is unreadable");
    }
  }
  if (!at->status().ok()) return database.Error(at->status(), "read which feeds are dropped");
  return drops;
}

absl::Status FinishDrops(Database* database) {
  const auto drops = NotedDrops(*database);
  if (!drops.ok()) return drops.status();
  for (const auto& [name, record] : *drops) {
    const auto id = database->ReadMeta(FeedNameKey(name));
    if (absl::IsNotFound(id.status())) continue;
    if (!id.ok()) return id.status();
    if (id->size() != 4) return database->Damaged("the id of a feed is unreadable");
    if (ReadBig32(id->data()) != record.feed()) continue;
    const absl::Status removed = RemoveFeed(
        database, record.feed(), name, record.has_left() ? DropNote::kKeep : DropNote::kForget);
    if (!removed.ok()) return removed;
  }
  return absl::OkStatus();
}

}  // namespace tidemark::store
