#include "store/verify_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tidemark::store {

void LogCheck::Report(std::string_view check, const ScannedEntry& entry, std::string text) {
  report_({check, facts_.name, entry.position, entry.sequence, std::move(text)});
}

void LogCheck::Add(const ScannedEntry& entry) {
  if (!entry.defect.empty()) {
    Report(check::kEntry, entry, fmt::format("entry {}: {}", entry.Name(), entry.defect));
  }
  if (entry.first) BeginTransaction(entry);
  if (entry.run.empty() || !open_) return;
  open_->bytes += entry.run.size();
  ++open_->runs;
  CheckRun(entry);
}

void LogCheck::Finish() {
  EndTransaction();
  CheckReferences();
}

void LogCheck::BeginTransaction(const ScannedEntry& entry) {
  EndTransaction();
  ++transactions_;
  open_ = Open{entry.position, entry.record, entry.Name(), 0, 0, 0, {}};
  CheckCommitLsn(entry);
  if (entry.record.spool_id() == 0) return;
  spools_seen_.insert(entry.record.spool_id());
  const auto reference = facts_.spooled.find(entry.record.spool_id());
  if (reference == facts_.spooled.end()) {
    Report(check::kSpool, entry,
           fmt::format("transaction {} is in the spool under id {}, which has no reference: the "
                       "next start would remove its runs",
                       entry.position.Text(), entry.record.spool_id()));
  } else if (reference->second != entry.position) {
    Report(check::kSpool, entry,
           fmt::format("spool id {} belongs to the transactions {} and {}", entry.record.spool_id(),
                       reference->second.Text(), entry.position.Text()));
  }
}

void LogCheck::EndTransaction() {
  CheckNothingAwaited("the end of its transaction");
  if (!open_) return;
  const Open done = *std::exchange(open_, std::nullopt);
  const auto report = [&](std::string_view check, std::string text) {
    report_({check, facts_.name, done.position, std::nullopt, std::move(text)});
  };
  if (done.record.spool_id() != 0 && done.runs == 0 && done.record.bytes() > 0) {
    report(check::kSpool, fmt::format("transaction {}: its runs, spool id {}, are gone",
                                      done.position.Text(), done.record.spool_id()));
    return;
  }
  if (done.changes > done.record.changes()) {
    report(check::kRecord,
           fmt::format("transaction {}: its record counts {} changes, its runs hold {}",
                       done.position.Text(), done.record.changes(), done.changes));
  }
  if (done.bytes != done.record.bytes()) {
    report(check::kRecord,
           fmt::format("transaction {}: its record counts {} bytes of runs, {} are there",
                       done.position.Text(), done.record.bytes(), done.bytes));
  }
  for (const uint64_t id : done.schema_ids) {
    const auto& listed = done.record.schema_ids();
    if (std::find(listed.begin(), listed.end(), id) == listed.end()) {
      report(check::kRecord, fmt::format("transaction {}: its record does not list schema {:016x}, "
                                         "which a run uses",
                                         done.position.Text(), id));
    }
  }
}

// In PostgreSQL a position is the end of a commit record, whose start is stored beside it; commit
// records do not overlap. So two transactions that stand under each other's positions show.
void LogCheck::CheckCommitLsn(const ScannedEntry& entry) {
  const uint64_t start = entry.record.commit_lsn();
  if (start == 0 || entry.position.ordinal() != 0) return;
  if (start >= entry.position.engine_low()) {
    Report(check::kOrder, entry,
           fmt::format("transaction {}: its commit record starts at {:X}, which is not before its "
                       "end: what stands here is of another position",
                       entry.position.Text(), start));
  }
  if (last_commit_ && last_commit_->generation() == entry.position.generation() &&
      start < last_commit_->engine_low()) {
    Report(check::kOrder, entry,
           fmt::format("transactions {} and {} are not in order: the second one's commit record "
                       "starts at {:X}, before the first one's end",
                       last_commit_->Text(), entry.position.Text(), start));
  }
  last_commit_ = entry.position;
}

void LogCheck::CheckRun(const ScannedEntry& entry) {
  v1::Run run;
  if (!run.ParseFromArray(entry.run.data(), static_cast<int>(entry.run.size()))) {
    Report(check::kEntry, entry,
           fmt::format("entry {}: its run is no tidemark.v1.Run", entry.Name()));
    return;
  }
  if (run.first_sequence() != 0) {
    Report(check::kEntry, entry,
           fmt::format("entry {}: its run holds a sequence, which only its key may", entry.Name()));
  }
  if (entry.part == 0 ? run.value_parts_size() > 0 : run.changes_size() > 0) {
    Report(check::kParts, entry,
           fmt::format("entry {}: changes and pieces of values are mixed", entry.Name()));
  }
  for (const uint64_t id : run.schema_ids()) open_->schema_ids.insert(id);
  for (const v1::Change& change : run.changes()) CheckChange(entry, run, change);
  for (const v1::ValuePart& part : run.value_parts()) CheckPart(entry, part);
}

void LogCheck::CheckChange(const ScannedEntry& entry, const v1::Run& run,
                           const v1::Change& change) {
  CheckNothingAwaited("the next change");
  ++changes_;
  ++open_->changes;
  const uint64_t sequence = entry.sequence + change.ordinal();
  CheckOrder(entry, sequence);
  if (sequence >= open_->record.changes()) {
    Report(check::kRecord, entry,
           fmt::format("entry {} holds the change {}/{}, its commit record counts {} changes",
                       entry.Name(), entry.position.Text(), sequence, open_->record.changes()));
  }
  if (change.table() >= static_cast<uint32_t>(run.schema_ids_size())) {
    Report(check::kEntry, entry,
           fmt::format("entry {}: a change names a schema that its run does not", entry.Name()));
    return;
  }
  const uint64_t schema_id = run.schema_ids(static_cast<int>(change.table()));
  const auto schema = facts_.schemas.find(schema_id);
  if (schema != facts_.schemas.end()) {
    CheckImage(entry, schema->second, change);
  } else if (missing_schemas_.insert(schema_id).second) {
    Report(check::kSchema, entry,
           fmt::format("entry {} uses schema {:016x}, which the store does not hold", entry.Name(),
                       schema_id));
  }
}

void LogCheck::CheckOrder(const ScannedEntry& entry, uint64_t sequence) {
  if (last_position_ && (entry.position < *last_position_ ||
                         (entry.position == *last_position_ && sequence <= last_sequence_))) {
    Report(check::kOrder, entry,
           fmt::format("(position, sequence) does not rise: {}/{} in entry {} stands behind {}/{} "
                       "in entry {}",
                       entry.position.Text(), sequence, entry.Name(), last_position_->Text(),
                       last_sequence_, last_entry_));
  }
  last_position_ = entry.position;
  last_sequence_ = sequence;
  last_entry_ = entry.Name();
}

void LogCheck::CheckImage(const ScannedEntry& entry, const v1::TableSchema& schema,
                          const v1::Change& change) {
  const bool removes = change.op() == v1::OP_DELETE || change.op() == v1::OP_TRUNCATE;
  const int columns = schema.columns_size();
  if (change.after_size() != (removes ? 0 : columns) ||
      (change.before_size() != 0 && change.before_size() != columns)) {
    Report(check::kEntry, entry,
           fmt::format("entry {}: a row has another number of values than table {} has columns",
                       entry.Name(), schema.table_name()));
  }
  const auto await = [&](v1::Image image, const auto& values) {
    for (int i = 0; i < values.size(); ++i) {
      if (!values[i].has_in_parts()) continue;
      awaited_[{image, static_cast<uint32_t>(i)}] = {
          entry.Name(), values[i].in_parts().size_bytes(), {}};
    }
  };
  await(v1::IMAGE_AFTER, change.after());
  await(v1::IMAGE_BEFORE, change.before());
  await(v1::IMAGE_KEY, change.key());
}

void LogCheck::CheckPart(const ScannedEntry& entry, const v1::ValuePart& part) {
  const auto awaited = awaited_.find({part.image(), part.column()});
  if (awaited == awaited_.end()) {
    Report(check::kParts, entry,
           fmt::format("entry {}: a piece of a value that no change awaits", entry.Name()));
    return;
  }
  AwaitedValue& value = awaited->second;
  if (part.offset_bytes() != value.bytes.size()) {
    Report(check::kParts, entry,
           fmt::format("entry {}: a piece of a value begins at byte {}, {} were there before",
                       entry.Name(), part.offset_bytes(), value.bytes.size()));
  }
  value.bytes += part.data();
  if (!part.last()) return;
  v1::Value whole;
  if (value.bytes.size() != value.size_bytes || !whole.ParseFromString(value.bytes)) {
    Report(check::kParts, entry,
           fmt::format("entry {}: the pieces of a value of entry {} do not add up to it",
                       entry.Name(), value.entry));
  }
  awaited_.erase(awaited);
}

void LogCheck::CheckNothingAwaited(std::string_view where) {
  for (const auto& [place, value] : awaited_) {
    report_({check::kParts, facts_.name, last_position_, last_sequence_,
             fmt::format("entry {}: only {} of {} bytes of a value came before {}", value.entry,
                         value.bytes.size(), value.size_bytes, where)});
  }
  awaited_.clear();
}

void LogCheck::CheckReferences() {
  for (const auto& [spool_id, position] : facts_.spooled) {
    // Trimmed with its transaction, by the same batch.
    if (spools_seen_.contains(spool_id)) continue;
    report_({check::kSpool, facts_.name, position, std::nullopt,
             fmt::format("spool id {} belongs to transaction {}, which the log does not hold",
                         spool_id, position.Text())});
  }
}

}  // namespace tidemark::store
