#include "store/tail_rows.h"

#include "store/absent_columns.h"
#include "store/log_entry.h"
#include "store/row_value.h"
#include "store/stored_log_reader.h"

namespace tidemark::store {
namespace {

bool IsWhole(std::string_view row) {
  const auto decoded = DecodeRow(row);
  std::vector<std::string_view> values;
  return decoded && SplitRowFields(decoded->values, &values) && !HasAbsent(values);
}

}  // namespace

TailRows::TailRows(Database* database, FeedId feed, const FeedState* state, RowKeys keys,
                   std::function<absl::Status()> fold_to_head)
    : database_(*database),
      feed_(feed),
      state_(*state),
      fold_to_head_(std::move(fold_to_head)),
      keys_(std::move(keys)) {}

void TailRows::Forget() {
  index_.Clear();
  runs_ = {};
  through_ = Position();
  keys_.Forget();
}

absl::StatusOr<std::optional<std::string>> TailRows::Find(std::string_view prefix,
                                                          std::string_view key) {
  if (absl::Status status = CatchUp(); !status.ok()) return status;
  std::string row;
  const auto found = index_.Find(prefix, key, &row);
  // What was folded meanwhile may be trimmed: then the rows know it.
  if (absl::IsAborted(found.status())) return FindFolded(key);
  if (!found.ok()) return found.status();
  switch (*found) {
    case ChangeIndex::Found::kGone:
      return std::nullopt;
    case ChangeIndex::Found::kNotChanged:
      return FindFolded(key);
    case ChangeIndex::Found::kRow:
      break;
  }
  if (IsWhole(row)) return row;
  // Written before changes were filled: the fold knows what stood there before.
  if (absl::Status status = fold_to_head_(); !status.ok()) return status;
  return FindFolded(key);
}

absl::Status TailRows::CatchUp() {
  const FeedBoundaries now = state_.Get();
  if (now.folded >= through_) {
    if (!runs_.empty()) Forget();
    through_ = now.folded;
  }
  if (through_ >= now.head) return absl::OkStatus();
  const auto indexed = Index();
  if (!indexed.ok()) return indexed.status();
  if (!*indexed) {
    // Most of what fills it may be folded by now: once more without that, else it is folded now.
    Forget();
    through_ = state_.Get().folded;
    const auto again = Index();
    if (!again.ok()) return again.status();
    if (!*again) {
      if (absl::Status status = fold_to_head_(); !status.ok()) return status;
      Forget();
    }
  }
  through_ = now.head;
  return absl::OkStatus();
}

absl::StatusOr<bool> TailRows::Index() {
  StoredLogReader reader(database_, state_, feed_, through_);
  StoredRun run;
  for (;;) {
    const absl::StatusOr<bool> more = reader.Next(&run);
    if (!more.ok()) return more.status();
    if (!*more) return true;
    if (run.part == 0) {
      runs_.push_back({run.position, run.first_sequence, run.record->spool_id()});
      const auto number = static_cast<uint32_t>(runs_.size() - 1);
      if (absl::Status status = index_.Add(number, run.bytes); !status.ok()) return status;
    }
    if (index_.is_full() || runs_.size() >= kTailRunsMax) return false;
  }
}

absl::StatusOr<std::string_view> TailRows::Bytes(uint32_t number, uint32_t part) {
  const RunAt& run = runs_[number];
  rocksdb::Status status;
  std::string_view found;
  if (run.spool_id != 0) {
    const std::string key = SpoolKey{feed_, run.spool_id, run.first_sequence, part}.Encode();
    status = database_.rocks()->Get(rocksdb::ReadOptions(), database_.spool(), key, &bytes_);
    found = bytes_;
  } else {
    const std::string key = LogKey{feed_, run.position, run.first_sequence, part}.Encode();
    status = database_.rocks()->Get(rocksdb::ReadOptions(), database_.log(), key, &bytes_);
    if (status.ok()) {
      const auto entry = LogEntry::Parse(bytes_);
      if (!entry.ok()) return database_.Damaged("an entry of the log is unreadable");
      found = entry->run;
    }
  }
  if (status.ok()) return found;
  if (!status.IsNotFound()) return database_.Error(status, "read the log");
  if (run.position <= state_.Get().folded) return absl::AbortedError("folded, and trimmed");
  return database_.Damaged("a run of the log is gone before it was folded");
}

std::pair<Position, uint64_t> TailRows::PlaceOf(uint32_t number) const {
  return {runs_[number].position, runs_[number].first_sequence};
}

absl::StatusOr<std::optional<std::string>> TailRows::FindFolded(std::string_view key) {
  std::string row;
  const rocksdb::Status status = database_.rocks()->Get(rocksdb::ReadOptions(), database_.rows(),
                                                        {key.data(), key.size()}, &row);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return database_.Error(status, "read a row");
  return row;
}

}  // namespace tidemark::store
