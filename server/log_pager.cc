#include "server/log_pager.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/limits.h"
#include "server/transaction_writer.h"
#include "server/wire_fields.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark {
namespace {

// `run` is a serialized v1::Run, whose first field is the packed list of its schemas.
bool NamesSchema(std::string_view run, uint64_t schema_id) {
  WireFields fields(run);
  WireField field;
  if (!fields.Next(&field) || field.number != v1::Run::kSchemaIdsFieldNumber) return false;
  for (; field.bytes.size() >= sizeof(uint64_t); field.bytes.remove_prefix(sizeof(uint64_t))) {
    uint64_t id = 0;
    std::memcpy(&id, field.bytes.data(), sizeof id);
    if (id == schema_id) return true;
  }
  return false;
}

}  // namespace

LogPager::LogPager(const store::FeedStore& store, RunFilter& filter, const Position& after,
                   Options options)
    : store_(store), filter_(filter), options_(std::move(options)), upto_(after) {}

void LogPager::Rest() {
  if (reader_) reader_->Rest();
}

absl::StatusOr<bool> LogPager::Read(store::StoredRun* run) {
  if (past_bound_) return false;
  if (!reader_) {
    auto reader = store_.NewLogReader(upto_);
    if (!reader.ok()) return reader.status();
    reader_ = *std::move(reader);
  }
  auto found = reader_->Next(run);
  if (!found.ok() || !*found) return found;
  if (run->record->commit_time_us() > options_.commit_time_us_max) too_late_ = run->position;
  // What lies behind the bound is not there; the bound never moves.
  past_bound_ = too_late_ || (options_.until && run->position > *options_.until);
  return !past_bound_;
}

absl::Status LogPager::CutAtSteps(const store::StoredRun& run, LogPage* page) {
  if (run.first_of_transaction) {
    const auto steps = store_.SchemaTransitions(upto_, run.position);
    steps_.assign(steps.begin(), steps.end());
  }
  // A run ends where a table in it gets another schema; in one that was written before this was so,
  // the schema is announced too early rather than too late.
  while (!steps_.empty() && (steps_.front().sequence <= run.first_sequence ||
                             NamesSchema(run.bytes, steps_.front().after))) {
    const store::SchemaTransition step = steps_.front();
    steps_.pop_front();
    auto wanted = filter_.WantsSchema(step.after);
    if (!wanted.ok()) return wanted.status();
    if (!*wanted) continue;
    if (!run.first_of_transaction) ClosePart(run, page, false);
    Cut(step, page);
  }
  return absl::OkStatus();
}

void LogPager::Cut(std::variant<store::SchemaTransition, store::Gap> then, LogPage* page) {
  heads_bytes_ += page->batch.size();
  page->heads.push_back({std::exchange(page->batch, {}), std::exchange(page->schema_ids, {}),
                         std::exchange(page->transactions, 0), std::move(then)});
}

absl::Status LogPager::AddRun(const store::StoredRun& run) {
  if (run.first_of_transaction) {
    delivered_ = 0;
    part_sent_ = false;
  }
  if (filter_.passes_everything()) {
    AppendRunField(&runs_, run.bytes, run.first_sequence);
    return absl::OkStatus();
  }
  auto cut = filter_.Cut(run.bytes, run.part);
  if (!cut.ok()) return cut.status();
  delivered_ += cut->changes;
  if (!cut->empty()) AppendRunField(&runs_, cut->bytes, run.first_sequence);
  return absl::OkStatus();
}

void LogPager::ClosePart(const store::StoredRun& run, LogPage* page, bool last) {
  if (!runs_.empty() || (last && part_sent_)) {
    std::optional<TransactionEnd> end;
    std::string cursor;
    if (last) {
      if (options_.cursor_of) cursor = options_.cursor_of(run.position);
      const uint64_t total = run.record->changes();
      end = TransactionEnd{.cursor = cursor,
                           .changes_total = total,
                           .changes_delivered = filter_.passes_everything() ? total : delivered_};
      ++page->transactions;
    }
    AppendTransaction(&page->batch, run.position, *run.record, runs_, end);
    part_sent_ = true;
    for (const uint64_t id : run.record->schema_ids()) {
      const auto& ids = page->schema_ids;
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) page->schema_ids.push_back(id);
    }
  }
  runs_.clear();
}

absl::StatusOr<LogPage> LogPager::Next(size_t bytes_target) {
  LogPage page;
  heads_bytes_ = 0;
  size_t read_bytes = 0;
  uint64_t changes = 0;
  store::StoredRun run;
  while (changes < options_.changes_max && heads_bytes_ + page.batch.size() < bytes_target &&
         read_bytes < limits::delivery_slice_bytes_max) {
    auto found = Read(&run);
    if (!found.ok()) return found.status();
    if (!*found) {
      page.at_end = true;
      page.too_late = too_late_;
      break;
    }
    if (run.first_of_transaction && options_.shows_gaps) {
      for (store::Gap& gap : store_.GapsBetween(upto_, run.position)) Cut(std::move(gap), &page);
    }
    if (run.first_of_transaction && !filter_.passes_everything()) {
      auto wanted = filter_.WantsCommit(*run.record);
      if (!wanted.ok()) return wanted.status();
      if (!*wanted) {
        // What is passed over costs about one read, whatever its size.
        read_bytes += run.bytes.size();
        upto_ = run.position;
        reader_->SkipTransaction();
        continue;
      }
    }
    read_bytes += run.bytes.size();
    if (options_.shows_schema_changes) {
      if (const auto status = CutAtSteps(run, &page); !status.ok()) return status;
    }
    if (const auto status = AddRun(run); !status.ok()) return status;
    const bool full =
        runs_.size() >= options_.part_bytes || read_bytes >= limits::delivery_slice_bytes_max;
    if (run.last_of_transaction) {
      ClosePart(run, &page, true);
      upto_ = run.position;
      inside_.reset();
      changes += filter_.passes_everything() ? run.record->changes() : delivered_;
    } else {
      inside_ = InsidePosition{run.position, run.first_sequence, run.part};
      if (full) ClosePart(run, &page, false);
    }
  }
  page.upto = upto_;
  page.inside = inside_.has_value();
  return page;
}

absl::StatusOr<bool> LogPager::SkipInto(const InsidePosition& inside) {
  store::StoredRun run;
  while (true) {
    auto found = Read(&run);
    if (!found.ok()) return found.status();
    if (!*found || run.position != inside.position) return false;
    // The filter has to see what was delivered: it counts, and it knows which pieces are wanted.
    if (const auto status = AddRun(run); !status.ok()) return status;
    part_sent_ = part_sent_ || !runs_.empty();
    runs_.clear();
    if (run.last_of_transaction) return false;
    if (run.first_sequence == inside.sequence && run.part == inside.part) {
      inside_ = inside;
      return true;
    }
  }
}

}  // namespace tidemark
