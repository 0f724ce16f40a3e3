#include "store/feed_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "store/log_trim.h"

namespace tidemark::store {
namespace {

class FactsReader {
 public:
  FactsReader(const Database& database, FeedFacts* facts) : database_(database), facts_(*facts) {}

  absl::Status Read() {
    if (absl::Status s = ReadMeta(); !s.ok()) return s;
    if (absl::Status s = ReadRowsMarker(); !s.ok()) return s;
    if (absl::Status s = ReadLastTransaction(); !s.ok()) return s;
    if (absl::Status s = ReadSchemas(); !s.ok()) return s;
    if (absl::Status s = ReadGaps(); !s.ok()) return s;
    return ReadSpooled();
  }

 private:
  void Defect(std::string what) { facts_.defects.push_back(std::move(what)); }

  // nullopt where there is no such key.
  absl::StatusOr<std::optional<std::string>> Value(const std::string& key) {
    absl::StatusOr<std::string> value = database_.ReadMeta(key);
    if (absl::IsNotFound(value.status())) return std::nullopt;
    if (!value.ok()) return value.status();
    return *std::move(value);
  }

  absl::Status ReadMeta() {
    const auto record = Value(FeedRecordKey(facts_.id));
    const auto checkpoint = Value(CheckpointKey(facts_.id));
    const auto whole = Value(SnapshotWholeKey(facts_.id));
    const auto floor = Value(FloorKey(facts_.id));
    for (const auto* value : {&record, &checkpoint, &whole, &floor}) {
      if (!value->ok()) return value->status();
    }
    if (!*record) {
      Defect("the feed has no record");
    } else if (!facts_.record.ParseFromString(**record)) {
      Defect("the feed's record is no tidemark.v1.FeedRecord");
    }
    if (*checkpoint) ReadCheckpoint(**checkpoint);
    if (*whole) facts_.snapshot = ReadPosition(**whole, "the boundary of the initial snapshot");
    if (*floor) ReadFloor(**floor);
    return absl::OkStatus();
  }

  void ReadCheckpoint(const std::string& value) {
    v1::Checkpoint checkpoint;
    if (!checkpoint.ParseFromString(value)) {
      Defect("the checkpoint is no tidemark.v1.Checkpoint");
      return;
    }
    if (!checkpoint.position().empty()) {
      facts_.checkpoint_position = ReadPosition(checkpoint.position(), "the checkpoint's position");
    }
    facts_.checkpoint = std::move(checkpoint);
  }

  void ReadFloor(const std::string& value) {
    const auto trim = LogTrim::Decode(value);
    if (!trim) {
      Defect("the floor is unreadable");
      return;
    }
    facts_.floor = trim->floor;
    facts_.floor_commit_time_us = trim->commit_time_us;
  }

  std::optional<Position> ReadPosition(std::string_view bytes, std::string_view what) {
    const auto position = Position::FromBytes(bytes);
    if (position.ok()) return *position;
    Defect(fmt::format("{} is not 20 bytes long", what));
    return std::nullopt;
  }

  absl::Status ReadRowsMarker() {
    std::string value;
    const rocksdb::Status read = database_.rocks()->Get(rocksdb::ReadOptions(), database_.rows(),
                                                        RowsMarkerKey(facts_.id), &value);
    if (read.IsNotFound()) return absl::OkStatus();
    if (!read.ok()) return database_.Error(read, "read the marker of the rows");
    facts_.rows = RowsMarker::Decode(value);
    if (!facts_.rows) Defect("the marker of the rows is unreadable");
    return absl::OkStatus();
  }

  absl::Status ReadLastTransaction() {
    const std::unique_ptr<rocksdb::Iterator> at(
        database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.log()));
    at->SeekForPrev(FeedPrefix(facts_.id + 1));
    if (at->Valid() && at->key().starts_with(FeedPrefix(facts_.id))) {
      const auto key = LogKey::Decode(at->key().ToStringView());
      if (key) facts_.last_transaction = key->position;
    }
    return database_.Error(at->status(), "read the end of the log");
  }

  absl::Status ReadSchemas() {
    const std::unique_ptr<rocksdb::Iterator> at(
        database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.schemas()));
    const std::string prefix = FeedPrefix(facts_.id);
    for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
      const std::string_view key = at->key().ToStringView().substr(prefix.size());
      const std::string_view value = at->value().ToStringView();
      if (key.size() == 1 + 8 && key[0] == 'D') {
        v1::TableSchema schema;
        if (schema.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
          facts_.schemas[ReadBig64(key.data() + 1)] = std::move(schema);
        } else {
          Defect(fmt::format("schema {:016x} is no tidemark.v1.TableSchema",
                             ReadBig64(key.data() + 1)));
        }
      } else if (key.size() > 1 + Position::kBytes + 8 && key[0] == 'H' && value.size() == 8) {
        const std::string_view tail = key.substr(key.size() - Position::kBytes - 8);
        facts_.history.push_back({*Position::FromBytes(tail.substr(0, Position::kBytes)),
                                  ReadBig64(tail.data() + Position::kBytes),
                                  ReadBig64(value.data())});
      } else {
        Defect("an entry of the schemas is unreadable");
      }
    }
    return database_.Error(at->status(), "read the schemas");
  }

  absl::Status ReadGaps() {
    const std::unique_ptr<rocksdb::Iterator> at(
        database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.meta()));
    const std::string prefix = GapPrefix(facts_.id);
    for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
      v1::GapRecord record;
      const std::string_view value = at->value().ToStringView();
      if (!record.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
        Defect("a Gap record is no tidemark.v1.GapRecord");
        continue;
      }
      const auto from = ReadPosition(record.from(), "the end of a generation");
      const auto to = ReadPosition(record.to(), "the beginning of a generation");
      if (from && to) facts_.gaps.push_back({*from, *to, std::move(record)});
    }
    return database_.Error(at->status(), "read the gaps");
  }

  absl::Status ReadSpooled() {
    const std::unique_ptr<rocksdb::Iterator> at(
        database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.meta()));
    const std::string prefix = SpooledPrefix(facts_.id);
    for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
      const auto position = Position::FromBytes(at->value().ToStringView());
      if (at->key().size() == prefix.size() + 8 && position.ok()) {
        facts_.spooled[ReadBig64(at->key().data() + prefix.size())] = *position;
      } else {
        Defect("a reference to the spool is unreadable");
      }
    }
    return database_.Error(at->status(), "read the references to the spool");
  }

  const Database& database_;
  FeedFacts& facts_;
};

}  // namespace

std::optional<Position> FeedFacts::head() const {
  if (!last_transaction || !checkpoint_position) {
    return last_transaction ? last_transaction : checkpoint_position;
  }
  return std::max(*last_transaction, *checkpoint_position);
}

absl::StatusOr<std::vector<FeedFacts>> ReadFeedFacts(const Database& database,
                                                     const std::optional<std::string>& only) {
  std::vector<FeedFacts> feeds;
  const std::unique_ptr<rocksdb::Iterator> at(
      database.rocks()->NewIterator(rocksdb::ReadOptions(), database.meta()));
  const std::string prefix = FeedNameKey("");
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    const std::string name = at->key().ToString().substr(prefix.size());
    if (only && name != *only) continue;
    FeedFacts& facts = feeds.emplace_back();
    facts.name = name;
    if (at->value().size() != 4) {
      facts.defects.emplace_back("the feed's id is unreadable");
      continue;
    }
    facts.id = ReadBig32(at->value().data());
    if (absl::Status s = FactsReader(database, &facts).Read(); !s.ok()) return s;
  }
  if (!at->status().ok()) return database.Error(at->status(), "read the names of the feeds");
  if (only && feeds.empty()) {
    return absl::NotFoundError(
        fmt::format("the store in {} holds no feed named {}", database.path(), *only));
  }
  return feeds;
}

}  // namespace tidemark::store
