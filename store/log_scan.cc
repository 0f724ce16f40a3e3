#include "store/log_scan.h"

#include <fmt/format.h>

#include "absl/strings/escaping.h"
#include "store/log_entry.h"

namespace tidemark::store {
namespace {

rocksdb::ReadOptions Until(const rocksdb::Slice* end) {
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = end;
  options.fill_cache = false;
  return options;
}

}  // namespace

std::string ScannedEntry::Name() const {
  std::string name = fmt::format("{}/{}", position.Text(), sequence);
  if (part != 0) name += fmt::format("+{}", part);
  return name;
}

LogScan::LogScan(const Database& database, FeedId feed, const Position& after)
    : database_(database),
      feed_(feed),
      end_key_(FeedPrefix(feed + 1)),
      end_(end_key_),
      at_(database.rocks()->NewIterator(Until(&end_), database.log())) {
  at_->Seek(after == Position() ? FeedPrefix(feed) : LogKeyBehind(feed, after));
}

absl::StatusOr<bool> LogScan::Next(ScannedEntry* entry) {
  entry->defect.clear();
  entry->run = {};
  if (spool_ != nullptr) {
    if (FillSpooled(entry)) return true;
    if (!spool_->status().ok()) return database_.Error(spool_->status(), "read the spool");
    spool_.reset();
  }
  if (!moved_) at_->Next();
  moved_ = false;
  if (!at_->Valid()) {
    if (!at_->status().ok()) return database_.Error(at_->status(), "read the log");
    return false;
  }
  Fill(at_->key().ToStringView(), at_->value().ToStringView(), entry);
  return true;
}

bool LogScan::Fill(std::string_view key, std::string_view value, ScannedEntry* entry) {
  const auto decoded = LogKey::Decode(key);
  if (!decoded) {
    entry->defect =
        fmt::format("the key {} is no key of the log",
                    std::string(absl::BytesToHexString(absl::string_view(key.data(), key.size()))));
    return false;
  }
  entry->position = decoded->position;
  entry->sequence = decoded->sequence;
  entry->part = decoded->part;
  entry->spooled = false;
  entry->first = !in_transaction_ || decoded->position != position_;
  in_transaction_ = true;
  position_ = decoded->position;
  if (entry->first) entry->record.Clear();
  const auto parsed = LogEntry::Parse(value);
  if (!parsed.ok()) {
    entry->defect = std::string(parsed.status().message());
    return false;
  }
  if (entry->first != !parsed->record.empty()) {
    entry->defect = entry->first ? "the first entry of a transaction holds no commit record"
                                 : "a later entry of a transaction holds a commit record";
  }
  if (!parsed->record.empty() &&
      !entry->record.ParseFromArray(parsed->record.data(),
                                    static_cast<int>(parsed->record.size()))) {
    entry->defect = "the commit record is no tidemark.v1.CommitRecord";
    return false;
  }
  entry->run = parsed->run;
  if (entry->first && entry->record.spool_id() != 0) {
    spool_end_key_ = SpoolPrefix(feed_, entry->record.spool_id() + 1);
    spool_end_ = spool_end_key_;
    spool_.reset(database_.rocks()->NewIterator(Until(&spool_end_), database_.spool()));
    spool_->Seek(SpoolPrefix(feed_, entry->record.spool_id()));
  }
  return true;
}

bool LogScan::FillSpooled(ScannedEntry* entry) {
  // The entry that names the spool was returned before; each later one stands behind the last.
  if (entry->spooled) spool_->Next();
  if (!spool_->Valid()) return false;
  entry->spooled = true;
  entry->first = false;
  const auto key = SpoolKey::Decode(spool_->key().ToStringView());
  if (!key) {
    entry->defect = "a key of the spool is unreadable";
    return true;
  }
  entry->sequence = key->sequence;
  entry->part = key->part;
  entry->run = spool_->value().ToStringView();
  return true;
}

}  // namespace tidemark::store
