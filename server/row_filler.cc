#include "server/row_filler.h"

#include <algorithm>

#include "server/limits.h"

namespace tidemark {
namespace {

// Handles of sources count from 1 on.
constexpr uint64_t kFirstHandle = uint64_t{1} << 62;

bool HasGaps(const std::vector<EncodedRun>& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const EncodedRun& run) { return run.has_gaps; });
}

}  // namespace

RowFiller::RowFiller(store::FeedStore& store, WantsBefore wants_before,
                     std::function<bool()> stopping)
    : store_(store),
      stopping_(std::move(stopping)),
      // The keys of the batch's index are of this feed alone.
      keys_(
          0,
          [this](uint64_t id) -> absl::StatusOr<v1::TableSchema> {
            for (const v1::TableSchema& schema : next_->schemas) {
              if (schema.schema_id() == id) return schema;
            }
            return store_.Schema(id);
          },
          [this](const v1::TableSchema& schema) {
            return store_.KeepsRows(schema) &&
                   std::none_of(next_->lost.begin(), next_->lost.end(), [&](const auto& lost) {
                     return lost.schema_name() == schema.schema_name() &&
                            lost.table_name() == schema.table_name();
                   });
          }),
      run_filler_(
          &keys_, std::move(wants_before),
          [this](const store::KeyedTable& table, const std::string& key) {
            return RowBefore(table, key);
          },
          [this](EncodedRun run) { return Emit(std::move(run)); }),
      next_handle_(kFirstHandle) {}

absl::Status RowFiller::Add(EncodedTransaction transaction, store::AppendBatch* next) {
  if (!HasGaps(transaction.runs)) {
    next->transactions.push_back(std::move(transaction));
    return absl::OkStatus();
  }
  if (absl::Status status = Begin(next, /*spooled=*/false); !status.ok()) return status;
  std::vector<EncodedRun>& runs = transaction.runs;
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < runs.size(); i += 1 + pieces.size()) {
    pieces.clear();
    absl::Status status;
    if (runs[i].has_gaps) {
      while (i + 1 + pieces.size() < runs.size() && runs[i + 1 + pieces.size()].part > 0) {
        pieces.push_back(runs[i + 1 + pieces.size()].bytes);
      }
      status = run_filler_.Fill(runs[i].first_sequence, runs[i].bytes, pieces);
    } else {
      status = Emit(std::move(runs[i]));
    }
    if (!status.ok()) return status;
  }
  Finish(transaction.position, std::move(transaction.record));
  return absl::OkStatus();
}

void RowFiller::SawParts(uint64_t handle, const std::vector<EncodedRun>& runs) {
  if (HasGaps(runs)) with_gaps_.insert(handle);
}

absl::Status RowFiller::AddSpooled(store::SpooledCommit commit, store::AppendBatch* next) {
  if (with_gaps_.erase(commit.handle) == 0) {
    next->spooled.push_back(std::move(commit));
    return absl::OkStatus();
  }
  if (absl::Status status = Begin(next, /*spooled=*/true); !status.ok()) return status;
  {
    auto reader = store_.NewSpoolReader(commit.handle);
    if (!reader.ok()) return reader.status();
    if (absl::Status status = FillSpooled(reader->get()); !status.ok()) return status;
  }
  Finish(commit.position, std::move(commit.record));
  return store_.AbortSpool(commit.handle);
}

absl::Status RowFiller::FillSpooled(store::SpoolReader* reader) {
  store::SpooledRun run;
  absl::StatusOr<bool> more = reader->Next(&run);
  while (more.ok() && *more) {
    if (stopping_()) return absl::CancelledError("stopped while a large transaction was filled");
    EncodedRun main{run.first_sequence, run.part, 0, std::string(run.bytes)};
    std::vector<std::string> pieces;
    while ((more = reader->Next(&run)).ok() && *more && run.part > 0) {
      pieces.emplace_back(run.bytes);
    }
    const auto has_gaps = run_filler_.HasGaps(main.bytes);
    if (!has_gaps.ok()) return has_gaps.status();
    absl::Status status;
    if (*has_gaps) {
      const std::vector<std::string_view> views(pieces.begin(), pieces.end());
      status = run_filler_.Fill(main.first_sequence, main.bytes, views);
    } else {
      const uint64_t first_sequence = main.first_sequence;
      status = Emit(std::move(main));
      for (size_t i = 0; status.ok() && i < pieces.size(); ++i) {
        status = Emit({first_sequence, static_cast<uint32_t>(i + 1), 0, std::move(pieces[i])});
      }
    }
    if (!status.ok()) return status;
  }
  return more.status();
}

void RowFiller::Appended() {
  // Of which tables rows are kept may be another matter now. The batch is its owner's again.
  keys_.Forget();
  next_ = nullptr;
  index_.Clear();
  runs_.clear();
  handles_.clear();
  transactions_indexed_ = spooled_indexed_ = 0;
  filled_bytes_ = 0;
}

absl::Status RowFiller::Reset() {
  while (!handles_.empty()) {
    if (absl::Status status = store_.AbortSpool(*handles_.begin()); !status.ok()) return status;
    handles_.erase(handles_.begin());
  }
  Appended();
  keys_.Forget();
  with_gaps_.clear();
  filled_.clear();
  return absl::OkStatus();
}

absl::Status RowFiller::Begin(store::AppendBatch* next, bool spooled) {
  next_ = next;
  run_filler_.BeginTransaction();
  filled_.clear();
  handle_ = 0;
  bytes_ = 0;
  if (absl::Status status = CatchUp(); !status.ok()) return status;
  first_run_ = runs_.size();
  return spooled ? ToSpool() : absl::OkStatus();
}

void RowFiller::Finish(const Position& position, v1::CommitRecord record) {
  record.set_bytes(bytes_);
  if (handle_ != 0) {
    next_->spooled.push_back({handle_, position, std::move(record)});
    spooled_indexed_ = next_->spooled.size();
    return;
  }
  filled_bytes_ += bytes_;
  next_->transactions.push_back({position, std::move(record), std::move(filled_)});
  transactions_indexed_ = next_->transactions.size();
}

// What came into the batch since, in order: it had no gaps.
absl::Status RowFiller::CatchUp() {
  while (transactions_indexed_ < next_->transactions.size() ||
         spooled_indexed_ < next_->spooled.size()) {
    const bool is_small = spooled_indexed_ == next_->spooled.size() ||
                          (transactions_indexed_ < next_->transactions.size() &&
                           next_->transactions[transactions_indexed_].position <
                               next_->spooled[spooled_indexed_].position);
    if (!is_small) {
      absl::Status status = IndexSpooled(next_->spooled[spooled_indexed_].handle);
      if (!status.ok()) return status;
      ++spooled_indexed_;
      continue;
    }
    const std::vector<EncodedRun>& runs = next_->transactions[transactions_indexed_].runs;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].part > 0) continue;
      absl::Status status =
          IndexRun({0, runs[i].first_sequence, transactions_indexed_, i}, runs[i].bytes);
      if (!status.ok()) return status;
    }
    ++transactions_indexed_;
  }
  return absl::OkStatus();
}

absl::Status RowFiller::IndexSpooled(uint64_t handle) {
  auto reader = store_.NewSpoolReader(handle);
  if (!reader.ok()) return reader.status();
  store::SpooledRun run;
  for (;;) {
    const auto more = (*reader)->Next(&run);
    if (!more.ok() || !*more) return more.status();
    if (run.part > 0) continue;
    absl::Status status = IndexRun({handle, run.first_sequence, 0, 0}, run.bytes);
    if (!status.ok()) return status;
  }
}

absl::Status RowFiller::IndexRun(const RunAt& at, std::string_view bytes) {
  if (index_.is_full()) {
    auto overflow = store_.NewIndexOverflow();
    if (!overflow.ok()) return overflow.status();
    index_.UseOverflow(*std::move(overflow));
  }
  runs_.push_back(at);
  return index_.Add(static_cast<uint32_t>(runs_.size() - 1), bytes);
}

absl::Status RowFiller::Emit(EncodedRun run) {
  if (handle_ == 0 && filled_bytes_ + bytes_ + run.bytes.size() > limits::filled_bytes_max) {
    if (absl::Status status = ToSpool(); !status.ok()) return status;
  }
  bytes_ += run.bytes.size();
  if (run.part == 0) {
    absl::Status status = IndexRun(
        {handle_, run.first_sequence, next_->transactions.size(), filled_.size()}, run.bytes);
    if (!status.ok()) return status;
  }
  filled_.push_back(std::move(run));
  if (handle_ == 0) return absl::OkStatus();
  absl::Status status = store_.SpoolParts(handle_, next_->schemas, filled_);
  filled_.clear();
  return status;
}

absl::Status RowFiller::ToSpool() {
  handle_ = next_handle_++;
  handles_.insert(handle_);
  for (size_t i = first_run_; i < runs_.size(); ++i) runs_[i].handle = handle_;
  if (filled_.empty()) return absl::OkStatus();
  absl::Status status = store_.SpoolParts(handle_, next_->schemas, filled_);
  filled_.clear();
  return status;
}

absl::StatusOr<std::optional<std::string>> RowFiller::RowBefore(const store::KeyedTable& table,
                                                                const std::string& key) {
  std::string row;
  const auto found = index_.Find(table.prefix, key, &row);
  if (!found.ok()) return found.status();
  switch (*found) {
    case store::ChangeIndex::Found::kRow:
      return row;
    case store::ChangeIndex::Found::kGone:
      return std::nullopt;
    case store::ChangeIndex::Found::kNotChanged:
      break;
  }
  return store_.FindRow(table.schema, std::string_view(key).substr(table.prefix.size()));
}

absl::StatusOr<std::string_view> RowFiller::Bytes(uint32_t number, uint32_t part) {
  const RunAt& at = runs_[number];
  if (at.handle != 0) {
    auto run = store_.ReadSpooled(at.handle, at.first_sequence, part);
    if (!run.ok()) return run.status();
    read_ = *std::move(run);
    return read_;
  }
  const bool is_present = at.transaction == next_->transactions.size();
  const auto& runs = is_present ? filled_ : next_->transactions[at.transaction].runs;
  return runs[at.index + part].bytes;
}

std::pair<Position, uint64_t> RowFiller::PlaceOf(uint32_t number) const {
  // Nobody asks which transaction of the batch wrote a row.
  return {Position(), runs_[number].first_sequence};
}

}  // namespace tidemark
