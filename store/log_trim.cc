#include "store/log_trim.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/change_log.h"

namespace tidemark::store {
namespace {

struct Trimmable {
  Position position;
  LogSample sample;
};

// The last sample behind `floor` up to which everything may go.
absl::StatusOr<std::optional<Trimmable>> LastSample(const Database& database, FeedId feed,
                                                    const Position& floor,
                                                    const RetentionFacts& facts) {
  const std::unique_ptr<rocksdb::Iterator> at(
      database.rocks()->NewIterator(rocksdb::ReadOptions(), database.meta()));
  const std::string prefix = SamplePrefix(feed);
  std::optional<Trimmable> last;
  for (at->Seek(SampleKey(feed, floor)); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    const auto position = Position::FromBytes(at->key().ToStringView().substr(prefix.size()));
    const auto sample = LogSample::Decode(at->value().ToStringView());
    if (!position.ok() || !sample) return database.Damaged("a sample of the log is unreadable");
    if (!MayTrim(*position, *sample, facts)) break;
    if (*position > floor) last = Trimmable{*position, *sample};
  }
  if (!at->status().ok()) return database.Error(at->status(), "read the samples of the log");
  return last;
}

// Spool ids of the large transactions up to `floor`.
absl::StatusOr<std::vector<uint64_t>> SpooledUpTo(const Database& database, FeedId feed,
                                                  const Position& floor) {
  const std::unique_ptr<rocksdb::Iterator> at(
      database.rocks()->NewIterator(rocksdb::ReadOptions(), database.meta()));
  const std::string prefix = SpooledPrefix(feed);
  std::vector<uint64_t> ids;
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    const auto position = Position::FromBytes(at->value().ToStringView());
    if (!position.ok() || at->key().size() != prefix.size() + 8) {
      return database.Damaged("the place of a large transaction is unreadable");
    }
    if (*position <= floor) ids.push_back(ReadBig64(at->key().data() + prefix.size()));
  }
  if (!at->status().ok()) return database.Error(at->status(), "read the list of the spool");
  return ids;
}

}  // namespace

std::string LogTrim::Encode() const {
  std::string value(floor.bytes());
  AppendBig64(&value, static_cast<uint64_t>(commit_time_us));
  AppendBig64(&value, log_bytes);
  AppendBig64(&value, transactions);
  return value;
}

std::optional<LogTrim> LogTrim::Decode(std::string_view value) {
  if (value.size() != Position::kBytes + 16 && value.size() != Position::kBytes + 24) {
    return std::nullopt;
  }
  const char* numbers = value.data() + Position::kBytes;
  return LogTrim{*Position::FromBytes(value.substr(0, Position::kBytes)),
                 static_cast<int64_t>(ReadBig64(numbers)), ReadBig64(numbers + 8),
                 value.size() == Position::kBytes + 24 ? ReadBig64(numbers + 16) : 0};
}

absl::StatusOr<std::optional<LogTrim>> FindTrim(const Database& database, FeedId feed,
                                                const LogTrim& now, const RetentionFacts& facts) {
  auto sampled = LastSample(database, feed, now.floor, facts);
  if (!sampled.ok()) return sampled.status();
  std::optional<LogTrim> found;
  LogSample sample{0, now.log_bytes, now.transactions};
  Position behind = now.floor;
  if (*sampled) {
    behind = (*sampled)->position;
    sample = (*sampled)->sample;
    const auto record = FindRecordAtOrBefore(database, feed, behind);
    if (!record.ok()) return record.status();
    found = LogTrim{behind, *record ? (*record)->second.commit_time_us() : 0, sample.log_bytes,
                    sample.transactions};
  }
  LogWalk walk(database, feed, behind);
  LoggedTransaction transaction;
  for (;;) {
    const absl::StatusOr<bool> more = walk.Next(&transaction);
    if (!more.ok()) return more.status();
    if (!*more) return found;
    sample.log_bytes += transaction.bytes;
    ++sample.transactions;
    sample.newest_commit_time_us =
        std::max(sample.newest_commit_time_us, transaction.record.commit_time_us());
    if (!MayTrim(transaction.position, sample, facts)) return found;
    found = LogTrim{transaction.position, transaction.record.commit_time_us(), sample.log_bytes,
                    sample.transactions};
  }
}

absl::Status WriteTrim(Database* database, FeedId feed, const LogTrim& to) {
  const auto spooled = SpooledUpTo(*database, feed, to.floor);
  if (!spooled.ok()) return spooled.status();
  rocksdb::WriteBatch batch;
  const std::string log_end = LogKeyBehind(feed, to.floor);
  batch.DeleteRange(database->log(), FeedPrefix(feed), log_end);
  for (const uint64_t id : *spooled) {
    batch.DeleteRange(database->spool(), SpoolPrefix(feed, id), SpoolPrefix(feed, id + 1));
    batch.Delete(database->meta(), SpooledKey(feed, id));
  }
  batch.DeleteRange(database->meta(), SamplePrefix(feed),
                    SampleKey(feed, to.floor).append(1, '\0'));
  batch.Put(database->meta(), FloorKey(feed), to.Encode());
  if (absl::Status status = database->Write(&batch, /*sync=*/true); !status.ok()) return status;
  if (absl::Status status = database->DropFiles(database->log(), FeedPrefix(feed), log_end);
      !status.ok()) {
    return status;
  }
  for (const uint64_t id : *spooled) {
    absl::Status status =
        database->DropFiles(database->spool(), SpoolPrefix(feed, id), SpoolPrefix(feed, id + 1));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tidemark::store
