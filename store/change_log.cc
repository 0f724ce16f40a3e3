#include "store/change_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "store/log_entry.h"

namespace tidemark::store {
namespace {

absl::Status ParseRecord(const Database& database, const Position& position, rocksdb::Slice value,
                         v1::CommitRecord* record) {
  const auto entry = LogEntry::Parse(value.ToStringView());
  if (entry.ok() &&
      record->ParseFromArray(entry->record.data(), static_cast<int>(entry->record.size()))) {
    return absl::OkStatus();
  }
  return database.Damaged(fmt::format("the commit record at {} is unreadable", position.Text()));
}

rocksdb::ReadOptions Until(const rocksdb::Slice* end) {
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = end;
  options.fill_cache = false;
  return options;
}

}  // namespace

uint64_t AddTransaction(const Database& database, FeedId feed,
                        const EncodedTransaction& transaction, rocksdb::WriteBatch* batch) {
  // The readers tell the last run by the bytes, so the log counts them itself.
  v1::CommitRecord record = transaction.record;
  record.clear_spool_id();
  uint64_t run_bytes = 0;
  for (const EncodedRun& run : transaction.runs) run_bytes += run.bytes.size();
  record.set_bytes(run_bytes);
  std::string head = LogEntryHead(record.SerializeAsString());
  if (transaction.runs.empty()) {
    const std::string key = LogKey{feed, transaction.position, 0, 0}.Encode();
    batch->Put(database.log(), key, head);
    return key.size() + head.size();
  }
  uint64_t bytes = 0;
  for (const EncodedRun& run : transaction.runs) {
    const std::string key =
        LogKey{feed, transaction.position, run.first_sequence, run.part}.Encode();
    const rocksdb::Slice key_slice = key;
    const rocksdb::Slice value[] = {head, run.bytes};
    batch->Put(database.log(), rocksdb::SliceParts(&key_slice, 1), rocksdb::SliceParts(value, 2));
    bytes += key.size() + head.size() + run.bytes.size();
    head = LogEntryHead("");
  }
  return bytes;
}

uint64_t AddSpooledCommit(const Database& database, FeedId feed, const Position& position,
                          const v1::CommitRecord& record, const SpooledParts& parts,
                          rocksdb::WriteBatch* batch) {
  v1::CommitRecord stored = record;
  stored.set_spool_id(parts.spool_id);
  stored.set_bytes(parts.bytes);
  const std::string key = LogKey{feed, position, 0, 0}.Encode();
  const std::string value = LogEntryHead(stored.SerializeAsString());
  batch->Put(database.log(), key, value);
  batch->Put(database.meta(), SpooledKey(feed, parts.spool_id),
             rocksdb::Slice(position.bytes().data(), Position::kBytes));
  return key.size() + value.size() + parts.bytes;
}

absl::StatusOr<std::optional<std::pair<Position, LogSample>>> SampleAtOrBefore(
    const Database& database, FeedId feed, const Position& boundary) {
  const std::unique_ptr<rocksdb::Iterator> at(
      database.rocks()->NewIterator(rocksdb::ReadOptions(), database.meta()));
  const std::string prefix = SamplePrefix(feed);
  at->SeekForPrev(SampleKey(feed, boundary));
  if (!at->status().ok()) return database.Error(at->status(), "read the samples of the log");
  if (!at->Valid() || !at->key().starts_with(prefix)) return std::nullopt;
  const auto position = Position::FromBytes(at->key().ToStringView().substr(prefix.size()));
  const auto sample = LogSample::Decode(at->value().ToStringView());
  if (!position.ok() || !sample) return database.Damaged("a sample of the log is unreadable");
  return std::make_pair(*position, *sample);
}

uint64_t LogBytesThrough(const Database& database, FeedId feed, const FeedBoundaries& now,
                         const Position& boundary) {
  if (boundary >= now.head) return now.log_bytes_written;
  const auto sample = SampleAtOrBefore(database, feed, boundary);
  if (!sample.ok() || !*sample) return now.log_bytes_trimmed;
  return std::max(now.log_bytes_trimmed, (*sample)->second.log_bytes);
}

absl::StatusOr<std::optional<std::pair<Position, v1::CommitRecord>>> FindRecordAtOrBefore(
    const Database& database, FeedId feed, const Position& boundary) {
  const std::unique_ptr<rocksdb::Iterator> at(
      database.rocks()->NewIterator(rocksdb::ReadOptions(), database.log()));
  at->SeekForPrev(LogKeyBehind(feed, boundary));
  if (!at->status().ok()) return database.Error(at->status(), "read the log");
  if (!at->Valid() || !at->key().starts_with(FeedPrefix(feed))) return std::nullopt;
  const auto last = LogKey::Decode(at->key().ToStringView());
  if (!last) return database.Damaged("a key of the log is unreadable");
  at->Seek(LogKey{feed, last->position, 0, 0}.Encode());
  if (!at->status().ok()) return database.Error(at->status(), "read the log");
  v1::CommitRecord record;
  if (absl::Status status = ParseRecord(database, last->position, at->value(), &record);
      !status.ok()) {
    return status;
  }
  return std::make_pair(last->position, std::move(record));
}

LogWalk::LogWalk(const Database& database, FeedId feed, const Position& after)
    : database_(database),
      end_key_(FeedPrefix(feed + 1)),
      end_(end_key_),
      at_(database.rocks()->NewIterator(Until(&end_), database.log())) {
  at_->Seek(LogKeyBehind(feed, after));
}

absl::StatusOr<bool> LogWalk::Next(LoggedTransaction* transaction) {
  bool first = true;
  for (; at_->Valid(); at_->Next(), first = false) {
    const auto key = LogKey::Decode(at_->key().ToStringView());
    if (!key) return database_.Damaged("a key of the log is unreadable");
    if (first) {
      transaction->position = key->position;
      transaction->bytes = 0;
      absl::Status parsed =
          ParseRecord(database_, key->position, at_->value(), &transaction->record);
      if (!parsed.ok()) return parsed;
      if (transaction->record.spool_id() != 0) transaction->bytes += transaction->record.bytes();
    } else if (key->position != transaction->position) {
      break;
    }
    transaction->bytes += at_->key().size() + at_->value().size();
  }
  if (!at_->status().ok()) return database_.Error(at_->status(), "read the log");
  return !first;
}

}  // namespace tidemark::store
