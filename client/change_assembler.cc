#include "client/change_assembler.h"

#include <fmt/format.h>

#include "client/reason.h"
#include "proto/reason.h"

namespace tidemark::client {
namespace {

using Values = ChangeView::Values;

bool IsInParts(const v1::Value& value) { return value.kind_case() == v1::Value::kInParts; }

int CountInParts(const Values& values, uint64_t* bytes) {
  int count = 0;
  for (const v1::Value& value : values) {
    if (!IsInParts(value)) continue;
    ++count;
    *bytes += value.in_parts().size_bytes();
  }
  return count;
}

int CountInParts(const v1::Change& change, uint64_t* bytes) {
  return CountInParts(change.after(), bytes) + CountInParts(change.before(), bytes) +
         CountInParts(change.key(), bytes);
}

Values* ImageOf(v1::Change& change, v1::Image image) {
  switch (image) {
    case v1::IMAGE_AFTER:
      return change.mutable_after();
    case v1::IMAGE_BEFORE:
      return change.mutable_before();
    case v1::IMAGE_KEY:
      return change.mutable_key();
    default:
      return nullptr;
  }
}

// The value that a part belongs to; null when there is none that waits for parts.
v1::Value* TargetOf(v1::Change& change, const v1::ValuePart& part) {
  Values* const image = ImageOf(change, part.image());
  if (image == nullptr || part.column() >= static_cast<uint32_t>(image->size())) return nullptr;
  v1::Value* const value = image->Mutable(static_cast<int>(part.column()));
  return IsInParts(*value) ? value : nullptr;
}

}  // namespace

absl::Status ContractBroken(std::string_view what) {
  return ErrorWithReason(
      absl::StatusCode::kDataLoss, reason::kContractBroken,
      fmt::format("the server broke the contract of the stream: {}. Nothing of it "
                  "was taken; report this with the versions of both sides.",
                  what));
}

void ChangeAssembler::AddSchema(const v1::TableSchema& schema) {
  // Content never changes under one id, and held changes point at the first copy.
  schemas_.try_emplace(schema.schema_id(), schema);
}

const v1::TableSchema* ChangeAssembler::FindSchema(uint64_t schema_id) const {
  const auto found = schemas_.find(schema_id);
  return found == schemas_.end() ? nullptr : &found->second;
}

absl::Status ChangeAssembler::TakeRun(std::string_view position, const v1::Run& run,
                                      const Sink& sink) {
  for (const v1::Change& change : run.changes()) {
    if (change.table() >= static_cast<uint32_t>(run.schema_ids_size())) {
      return ContractBroken(fmt::format("a change at {} names no table of its run", position));
    }
    const uint64_t schema_id = run.schema_ids(static_cast<int>(change.table()));
    const v1::TableSchema* const schema = FindSchema(schema_id);
    if (schema == nullptr) {
      return ContractBroken(fmt::format("schema {:016x} was used at {} before it was announced",
                                        schema_id, position));
    }
    const uint64_t sequence = run.first_sequence() + change.ordinal();
    absl::Status taken = TakeChange(*schema, position, sequence, sequence, change, sink);
    if (!taken.ok()) return taken;
  }
  for (const v1::ValuePart& part : run.value_parts()) {
    absl::Status taken = TakePart(run.first_sequence() + part.ordinal(), part);
    if (!taken.ok()) return taken;
  }
  return HandOverWhole(sink);
}

absl::Status ChangeAssembler::TakeRows(const v1::Rows& rows, const Sink& sink) {
  const v1::TableSchema* const schema = FindSchema(rows.schema_id());
  if (schema == nullptr && (rows.rows_size() > 0 || rows.value_parts_size() > 0)) {
    return ContractBroken(fmt::format("rows of schema {:016x} came before it", rows.schema_id()));
  }
  for (int i = 0; i < rows.rows_size(); ++i) {
    const v1::Row& row = rows.rows(i);
    uint64_t bytes = 0;
    if (held_.empty() && CountInParts(row.values(), &bytes) == 0) {
      absl::Status taken = sink(ChangeView(*schema, row));
      if (!taken.ok()) return taken;
      continue;
    }
    v1::Change change;
    change.set_op(v1::OP_READ);
    *change.mutable_after() = row.values();
    absl::Status taken =
        TakeChange(*schema, row.position(), row.sequence(), static_cast<uint64_t>(i), change, sink);
    if (!taken.ok()) return taken;
  }
  for (const v1::ValuePart& part : rows.value_parts()) {
    absl::Status taken = TakePart(part.ordinal(), part);
    if (!taken.ok()) return taken;
  }
  return HandOverWhole(sink);
}

absl::Status ChangeAssembler::TakeChange(const v1::TableSchema& schema, std::string_view position,
                                         uint64_t sequence, uint64_t label,
                                         const v1::Change& change, const Sink& sink) {
  uint64_t bytes = 0;
  const int missing = CountInParts(change, &bytes);
  if (missing == 0 && held_.empty()) return sink(ChangeView(schema, position, sequence, change));
  return Hold({&schema,
               std::string(position),
               sequence,
               label,
               change,
               {},
               missing,
               bytes + change.ByteSizeLong()});
}

absl::Status ChangeAssembler::Hold(Held held) {
  if (held.bytes > held_bytes_max_ - std::min(held_bytes_, held_bytes_max_)) {
    return ErrorWithReason(
        absl::StatusCode::kResourceExhausted, reason::kValueTooLarge,
        fmt::format(
            "change {}/{} of {}.{} has {} bytes of values in parts; this client holds at most "
            "{} bytes. Raise the bound, or leave the table out.",
            held.position, held.sequence, held.schema->schema_name(), held.schema->table_name(),
            held.bytes, held_bytes_max_));
  }
  held_bytes_ += held.bytes;
  held_.push_back(std::move(held));
  return absl::OkStatus();
}

absl::Status ChangeAssembler::TakePart(uint64_t label, const v1::ValuePart& part) {
  // Parts belong to the newest change with their label: row indexes repeat from record to record.
  Held* held = nullptr;
  for (Held& candidate : held_) {
    if (candidate.label == label) held = &candidate;
  }
  v1::Value* const target = held == nullptr ? nullptr : TargetOf(held->change, part);
  if (target == nullptr) {
    return ContractBroken(fmt::format(
        "a value part names change {} column {}, which waits for none", label, part.column()));
  }
  const uint64_t size = target->in_parts().size_bytes();
  std::string& partial = held->partial[{part.image(), part.column()}];
  if (part.offset_bytes() != partial.size() || part.data().size() > size - partial.size() ||
      (part.last() && partial.size() + part.data().size() != size)) {
    return ContractBroken(fmt::format(
        "a value part of change {} column {} has {} bytes at {}, where {} of {} are there", label,
        part.column(), part.data().size(), part.offset_bytes(), partial.size(), size));
  }
  partial += part.data();
  if (!part.last()) return absl::OkStatus();
  v1::Value whole;
  if (!whole.ParseFromString(partial) || IsInParts(whole)) {
    return ContractBroken(
        fmt::format("the parts of change {} column {} add up to no value", label, part.column()));
  }
  target->Swap(&whole);
  held->partial.erase({part.image(), part.column()});
  --held->values_missing;
  return absl::OkStatus();
}

absl::Status ChangeAssembler::HandOverWhole(const Sink& sink) {
  while (!held_.empty() && held_.front().values_missing == 0) {
    const Held& front = held_.front();
    absl::Status taken =
        sink(ChangeView(*front.schema, front.position, front.sequence, front.change));
    if (!taken.ok()) return taken;
    held_bytes_ -= front.bytes;
    held_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status ChangeAssembler::CheckNothingHeld() const {
  if (held_.empty()) return absl::OkStatus();
  return ContractBroken(fmt::format("change {}/{} ends without the last part of a value",
                                    held_.front().position, held_.front().sequence));
}

void ChangeAssembler::Clear() {
  held_.clear();
  held_bytes_ = 0;
  schemas_.clear();
}

}  // namespace tidemark::client
