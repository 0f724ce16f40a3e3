#include "capture/transaction_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "capture/value_writer.h"

namespace tidemark::capture {
namespace {

constexpr uint8_t VarintTag(int field) { return static_cast<uint8_t>(field << 3); }
constexpr uint8_t LengthTag(int field) { return static_cast<uint8_t>(field << 3 | 2); }

// One Value of an image as it stands on the wire.
struct ValueAt {
  v1::Image image;
  uint32_t column;
  std::string_view field;  // tag, length and Value
  std::string_view value;  // the Value alone
  bool in_parts = false;
};

// REQUIRES: `image` is a sequence of length-delimited fields, as value_writer.h writes them.
void SplitImage(v1::Image image, std::string_view bytes, std::vector<ValueAt>* out) {
  for (uint32_t column = 0; !bytes.empty(); ++column) {
    size_t at = 1;
    uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      length |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    out->push_back({image, column, bytes.substr(0, at + length), bytes.substr(at, length)});
    bytes.remove_prefix(at + length);
  }
}

// Chooses what goes in parts: every value beyond its bound, then the largest ones until the change
// fits; the earlier one of equals.
void ChooseParts(std::vector<ValueAt>* values) {
  size_t total = 0;
  std::vector<ValueAt*> by_size;
  for (ValueAt& value : *values) {
    value.in_parts = value.value.size() > kValueBytesMax;
    if (value.in_parts) continue;
    total += value.field.size();
    by_size.push_back(&value);
  }
  std::stable_sort(by_size.begin(), by_size.end(), [](const ValueAt* a, const ValueAt* b) {
    return a->field.size() > b->field.size();
  });
  for (ValueAt* value : by_size) {
    if (total <= kChangeBytesMax) break;
    value->in_parts = true;
    total -= value->field.size();
  }
}

void AppendRunHeader(const uint64_t* schema_ids, size_t count, std::string* out) {
  out->push_back(static_cast<char>(LengthTag(v1::Run::kSchemaIdsFieldNumber)));
  AppendVarint(count * sizeof(uint64_t), out);
  for (size_t i = 0; i < count; ++i) {
    char little[sizeof(uint64_t)];
    uint64_t id = schema_ids[i];
    for (char& byte : little) byte = static_cast<char>(id & 0xFF), id >>= 8;
    out->append(little, sizeof(little));
  }
}

void AppendVarintField(int field, uint64_t value, std::string* out) {
  if (value == 0) return;
  out->push_back(static_cast<char>(VarintTag(field)));
  AppendVarint(value, out);
}

size_t VarintFieldBytes(uint64_t value) { return value == 0 ? 0 : 1 + VarintBytes(value); }

struct ChangeFields {
  v1::Op op;
  uint32_t table;
  uint32_t ordinal;
  bool key_change;
};

size_t ChangeBytes(const ChangeFields& fields, const ChangeImages& images) {
  return VarintFieldBytes(fields.op) + VarintFieldBytes(fields.table) +
         VarintFieldBytes(fields.ordinal) + images.after.size() + images.before.size() +
         images.key.size() + VarintFieldBytes(fields.key_change ? 1 : 0);
}

void AppendChange(const ChangeFields& fields, const ChangeImages& images, std::string* out) {
  out->push_back(static_cast<char>(LengthTag(v1::Run::kChangesFieldNumber)));
  AppendVarint(ChangeBytes(fields, images), out);
  AppendVarintField(v1::Change::kOpFieldNumber, fields.op, out);
  AppendVarintField(v1::Change::kTableFieldNumber, fields.table, out);
  AppendVarintField(v1::Change::kOrdinalFieldNumber, fields.ordinal, out);
  out->append(images.after);
  out->append(images.before);
  out->append(images.key);
  AppendVarintField(v1::Change::kKeyChangeFieldNumber, fields.key_change ? 1 : 0, out);
}

// A serialized Run with one piece of one value.
std::string PartRun(uint64_t schema_id, const ValueAt& value, size_t offset) {
  const std::string_view data = value.value.substr(offset, kPartBytesMax);
  std::string bytes;
  bytes.reserve(data.size() + 64);
  AppendRunHeader(&schema_id, 1, &bytes);
  std::string part;
  AppendVarintField(v1::ValuePart::kImageFieldNumber, value.image, &part);
  AppendVarintField(v1::ValuePart::kColumnFieldNumber, value.column, &part);
  AppendVarintField(v1::ValuePart::kOffsetBytesFieldNumber, offset, &part);
  part.push_back(static_cast<char>(LengthTag(v1::ValuePart::kDataFieldNumber)));
  AppendVarint(data.size(), &part);
  const bool last = offset + data.size() == value.value.size();
  bytes.push_back(static_cast<char>(LengthTag(v1::Run::kValuePartsFieldNumber)));
  AppendVarint(part.size() + data.size() + VarintFieldBytes(last ? 1 : 0), &bytes);
  bytes.append(part);
  bytes.append(data);
  AppendVarintField(v1::ValuePart::kLastFieldNumber, last ? 1 : 0, &bytes);
  return bytes;
}

}  // namespace

void TransactionBuilder::Begin() {
  next_sequence_ = 0;
  closed_bytes_ = 0;
  full_runs_.clear();
  schemas_.clear();
  commit_schema_ids_.clear();
  run_number_ = 1;
  open_changes_ = 0;
  open_has_gaps_ = false;
  run_schema_ids_.clear();
  open_bytes_.clear();
}

void TransactionBuilder::AddKeyChange(uint64_t schema_id, std::string_view old_key,
                                      std::string_view old_row, std::string_view new_row,
                                      bool has_gaps) {
  // The row that the insert goes on from is known before the delete only.
  AddChange(v1::OP_DELETE, schema_id,
            {.before = old_row, .key = old_key, .key_change = true, .has_gaps = has_gaps});
  AddChange(v1::OP_INSERT, schema_id, {.after = new_row, .key_change = true, .has_gaps = has_gaps});
}

void TransactionBuilder::AddChange(v1::Op op, uint64_t schema_id, const ChangeImages& images) {
  const size_t image_bytes = images.after.size() + images.before.size() + images.key.size();
  if (image_bytes > kChangeBytesMax) return AddInParts(op, schema_id, images);
  const bool too_far = open_changes_ > 0 && next_sequence_ - first_sequence_ > UINT32_MAX;
  if (too_far || (open_changes_ > 0 && open_bytes_.size() + image_bytes > kRunTargetBytes)) {
    CloseRun();
  }
  if (open_changes_ == 0) first_sequence_ = next_sequence_;
  const ChangeFields fields{op, TableIndex(schema_id),
                            static_cast<uint32_t>(next_sequence_ - first_sequence_),
                            images.key_change};
  AppendChange(fields, images, &open_bytes_);
  open_has_gaps_ |= images.has_gaps;
  ++open_changes_;
  ++next_sequence_;
}

void TransactionBuilder::AddInParts(v1::Op op, uint64_t schema_id, const ChangeImages& images) {
  CloseRun();
  std::vector<ValueAt> values;
  SplitImage(v1::IMAGE_AFTER, images.after, &values);
  SplitImage(v1::IMAGE_BEFORE, images.before, &values);
  SplitImage(v1::IMAGE_KEY, images.key, &values);
  ChooseParts(&values);
  std::string rest[3];  // after, before, key
  for (const ValueAt& value : values) {
    std::string& image = rest[value.image - v1::IMAGE_AFTER];
    if (value.in_parts) {
      AppendInParts(static_cast<ValueTag>(value.field[0]), value.value.size(), &image);
    } else {
      image.append(value.field);
    }
  }
  first_sequence_ = next_sequence_++;
  AppendChange({op, TableIndex(schema_id), 0, images.key_change}, {rest[0], rest[1], rest[2]},
               &open_bytes_);
  open_changes_ = 1;
  open_has_gaps_ = images.has_gaps;
  CloseRun();
  uint32_t part = 0;
  for (const ValueAt& value : values) {
    if (!value.in_parts) continue;
    for (size_t offset = 0; offset < value.value.size(); offset += kPartBytesMax) {
      Keep({.first_sequence = first_sequence_,
            .part = ++part,
            .changes = 0,
            .bytes = PartRun(schema_id, value, offset)});
    }
  }
}

uint32_t TransactionBuilder::TableIndex(uint64_t schema_id) {
  if (schema_id == last_schema_id_ && !run_schema_ids_.empty()) return last_table_;
  const auto [slot, is_new] = schemas_.try_emplace(schema_id);
  if (is_new) commit_schema_ids_.push_back(schema_id);
  SchemaUse& use = slot->second;
  if (use.run != run_number_) {
    use = {run_number_, static_cast<uint32_t>(run_schema_ids_.size())};
    run_schema_ids_.push_back(schema_id);
  }
  last_schema_id_ = schema_id;
  last_table_ = use.index;
  return use.index;
}

void TransactionBuilder::CutRunOf(uint64_t schema_before) {
  const auto use = schemas_.find(schema_before);
  if (use != schemas_.end() && use->second.run == run_number_) CloseRun();
}

void TransactionBuilder::CloseRun() {
  if (open_changes_ == 0) return;
  EncodedRun run{.first_sequence = first_sequence_,
                 .part = 0,
                 .changes = open_changes_,
                 .has_gaps = std::exchange(open_has_gaps_, false)};
  run.bytes.reserve(open_bytes_.size() + run_schema_ids_.size() * sizeof(uint64_t) + 16);
  AppendRunHeader(run_schema_ids_.data(), run_schema_ids_.size(), &run.bytes);
  run.bytes.append(open_bytes_);
  open_bytes_.clear();
  open_changes_ = 0;
  run_schema_ids_.clear();
  ++run_number_;
  Keep(std::move(run));
}

void TransactionBuilder::Keep(EncodedRun run) {
  closed_bytes_ += run.bytes.size();
  full_runs_.push_back(std::move(run));
}

std::vector<EncodedRun> TransactionBuilder::TakeFullRuns() { return std::exchange(full_runs_, {}); }

EncodedTransaction TransactionBuilder::Finish(const Position& position, v1::CommitRecord record) {
  CloseRun();
  record.set_changes(next_sequence_);
  record.set_bytes(closed_bytes_);
  record.mutable_schema_ids()->Assign(commit_schema_ids_.begin(), commit_schema_ids_.end());
  EncodedTransaction finished{position, std::move(record), TakeFullRuns()};
  Begin();
  return finished;
}

}  // namespace tidemark::capture
