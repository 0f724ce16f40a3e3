#include "store/stored_log_reader.h"

#include <fmt/format.h>

#include "proto/reason.h"
#include "store/log_entry.h"

namespace tidemark::store {
namespace {

rocksdb::ReadOptions ScanOptions(const rocksdb::Slice* end) {
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = end;
  // What one laggard reads once would drive the rows out of the cache.
  options.fill_cache = false;
  return options;
}

}  // namespace

absl::Status CheckFloor(const Position& boundary, const Position& floor) {
  if (boundary >= floor) return absl::OkStatus();
  return ErrorWithReason(
      absl::StatusCode::kOutOfRange, reason::kCursorExpired,
      fmt::format("the log reaches back to {} only, {} was trimmed by retention; start from a "
                  "snapshot, or from the earliest",
                  floor.Text(), boundary.Text()),
      {{"floor", floor.Text()}, {"cursor_position", boundary.Text()}});
}

absl::StatusOr<bool> StoredLogReader::Next(StoredRun* run) {
  if (!failure_.ok()) return failure_;
  absl::StatusOr<bool> moved = Move(run);
  if (!moved.ok()) {
    failure_ = moved.status();
    Rest();
  }
  return moved;
}

absl::StatusOr<bool> StoredLogReader::Move(StoredRun* run) {
  if (in_transaction_ && !skip_) return LaterRun(run);
  skip_ = false;
  if (in_transaction_) {
    in_transaction_ = false;
    after_ = position_;
    spool_.reset();
    if (log_ != nullptr) log_->Seek(LogKeyBehind(feed_, after_));
  } else if (log_ != nullptr) {
    log_->Next();
  }
  return FirstRun(run);
}

void StoredLogReader::Rest() {
  if (log_ != nullptr) appends_seen_ = UINT64_MAX;
  log_.reset();
  spool_.reset();
}

absl::Status StoredLogReader::OpenLog() {
  appends_seen_ = state_.appends();
  end_key_ = FeedPrefix(feed_ + 1);
  end_ = end_key_;
  log_.reset(database_.rocks()->NewIterator(ScanOptions(&end_), database_.log()));
  // Behind the iterator: the floor rises before anything is deleted, so an iterator that misses
  // something always meets a floor that says so.
  return CheckFloor(after_, state_.Get().floor);
}

absl::StatusOr<bool> StoredLogReader::FindTransaction() {
  for (;;) {
    if (log_ == nullptr) {
      if (state_.appends() == appends_seen_) return false;
      if (absl::Status status = OpenLog(); !status.ok()) return status;
      log_->Seek(LogKeyBehind(feed_, after_));
    }
    if (log_->Valid()) return true;
    const rocksdb::Status status = log_->status();
    log_.reset();
    if (!status.ok()) return database_.Error(status, "read the log");
  }
}

absl::StatusOr<bool> StoredLogReader::FirstRun(StoredRun* run) {
  const absl::StatusOr<bool> found = FindTransaction();
  if (!found.ok() || !*found) return found;
  const auto key = LogKey::Decode(log_->key().ToStringView());
  if (!key) return database_.Damaged("a key of the log is unreadable");
  position_ = key->position;
  run->first_sequence = key->sequence;
  run->part = key->part;
  if (absl::Status status = ParseRecord(run); !status.ok()) return status;
  in_transaction_ = true;
  bytes_read_ = 0;
  run->first_of_transaction = true;
  if (record_.spool_id() != 0) {
    if (absl::Status status = OpenSpool(); !status.ok()) return status;
    spool_->Seek(SpoolPrefix(feed_, record_.spool_id()));
    if (absl::Status status = ReadLaterRun(run); !status.ok()) return status;
  }
  if (absl::Status status = Deliver(run); !status.ok()) return status;
  return true;
}

absl::Status StoredLogReader::ParseRecord(StoredRun* run) {
  const auto entry = LogEntry::Parse(log_->value().ToStringView());
  if (!entry.ok() ||
      !record_.ParseFromArray(entry->record.data(), static_cast<int>(entry->record.size()))) {
    return database_.Damaged(
        fmt::format("the commit record at {} is unreadable", position_.Text()));
  }
  run->bytes = entry->run;
  return absl::OkStatus();
}

absl::StatusOr<bool> StoredLogReader::LaterRun(StoredRun* run) {
  if (absl::Status status = FindLaterRun(); !status.ok()) return status;
  run->first_of_transaction = false;
  if (absl::Status status = ReadLaterRun(run); !status.ok()) return status;
  if (absl::Status status = Deliver(run); !status.ok()) return status;
  return true;
}

absl::Status StoredLogReader::FindLaterRun() {
  const bool spooled = record_.spool_id() != 0;
  if ((spooled ? spool_ : log_) != nullptr) {
    (spooled ? spool_ : log_)->Next();
    return absl::OkStatus();
  }
  // After a rest.
  if (spooled) {
    if (absl::Status status = OpenSpool(); !status.ok()) return status;
    spool_->Seek(SpoolKey{feed_, record_.spool_id(), sequence_, part_}.Encode());
    if (spool_->Valid()) spool_->Next();
    return absl::OkStatus();
  }
  if (absl::Status status = OpenLog(); !status.ok()) return status;
  log_->Seek(LogKey{feed_, position_, sequence_, part_}.Encode());
  if (log_->Valid()) log_->Next();
  return absl::OkStatus();
}

absl::Status StoredLogReader::OpenSpool() {
  spool_end_key_ = SpoolPrefix(feed_, record_.spool_id() + 1);
  spool_end_ = spool_end_key_;
  spool_.reset(database_.rocks()->NewIterator(ScanOptions(&spool_end_), database_.spool()));
  return CheckFloor(after_, state_.Get().floor);
}

absl::Status StoredLogReader::ReadLaterRun(StoredRun* run) {
  rocksdb::Iterator& at = record_.spool_id() != 0 ? *spool_ : *log_;
  if (!at.status().ok()) return database_.Error(at.status(), "read the log");
  if (!at.Valid()) return TransactionCutShort();
  if (record_.spool_id() != 0) {
    const auto key = SpoolKey::Decode(at.key().ToStringView());
    if (!key) return database_.Damaged("a key of the spool is unreadable");
    run->first_sequence = key->sequence;
    run->part = key->part;
    run->bytes = at.value().ToStringView();
    return absl::OkStatus();
  }
  const auto key = LogKey::Decode(at.key().ToStringView());
  if (!key || key->position != position_) return TransactionCutShort();
  const auto entry = LogEntry::Parse(at.value().ToStringView());
  if (!entry.ok() || !entry->record.empty()) {
    return database_.Damaged(
        fmt::format("an entry of the transaction at {} is unreadable", position_.Text()));
  }
  run->first_sequence = key->sequence;
  run->part = key->part;
  run->bytes = entry->run;
  return absl::OkStatus();
}

absl::Status StoredLogReader::Deliver(StoredRun* run) {
  run->position = position_;
  run->record = &record_;
  sequence_ = run->first_sequence;
  part_ = run->part;
  bytes_read_ += run->bytes.size();
  if (bytes_read_ > record_.bytes()) return TransactionCutShort();
  run->last_of_transaction = bytes_read_ == record_.bytes();
  if (run->last_of_transaction) {
    in_transaction_ = false;
    after_ = position_;
  }
  return absl::OkStatus();
}

absl::Status StoredLogReader::TransactionCutShort() const {
  return database_.Damaged(
      fmt::format("the transaction at {} has {} bytes of runs, its commit "
                  "record says {}",
                  position_.Text(), bytes_read_, record_.bytes()));
}

}  // namespace tidemark::store
