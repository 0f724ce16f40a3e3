#include "server/run_filter.h"

#include <utility>

#include "server/limits.h"
#include "server/request_error.h"
#include "server/wire_fields.h"
#include "server/wire_writer.h"

namespace tidemark {
absl::StatusOr<RunFilter> RunFilter::Make(const v1::Filter& filter, SchemaOf schema_of) {
  if (filter.columns_size() > 0) return UnsupportedFeature("filter.columns");
  if (filter.has_key_partition()) return UnsupportedFeature("filter.key_partition");
  if (static_cast<size_t>(filter.tables_size()) > limits::filter_entries_max) {
    return InvalidRequest("filter.tables",
                          std::to_string(filter.tables_size()) + " entries; at most " +
                              std::to_string(limits::filter_entries_max) + " are taken");
  }
  RunFilter made;
  made.schema_of_ = std::move(schema_of);
  for (const std::string& text : filter.tables()) {
    auto pattern = TablePattern::Parse(text);
    if (!pattern.ok()) {
      return InvalidRequest("filter.tables", std::string(pattern.status().message()));
    }
    made.patterns_.push_back(*std::move(pattern));
  }
  if (filter.ops_size() > 0) made.ops_ = 0;
  for (const int op : filter.ops()) {
    if (!v1::Op_IsValid(op) || op == v1::OP_UNSPECIFIED) {
      return InvalidRequest("filter.ops", std::to_string(op) + " is no op that this server knows");
    }
    made.ops_ |= uint32_t{1} << op;
  }
  return made;
}

void RunFilter::RestrictTo(std::function<bool(const v1::TableSchema&)> also) {
  also_ = std::move(also);
  wanted_.clear();
}

absl::StatusOr<bool> RunFilter::WantsSchema(uint64_t schema_id) {
  if (patterns_.empty() && !also_) return true;
  const auto known = wanted_.find(schema_id);
  if (known != wanted_.end()) return known->second;
  auto schema = schema_of_(schema_id);
  if (!schema.ok()) return schema.status();
  bool wanted = patterns_.empty();
  for (const TablePattern& pattern : patterns_) {
    wanted = wanted || pattern.Matches(schema->schema_name(), schema->table_name());
  }
  wanted = wanted && (!also_ || also_(*schema));
  wanted_.emplace(schema_id, wanted);
  return wanted;
}

absl::StatusOr<bool> RunFilter::WantsCommit(const v1::CommitRecord& record) {
  for (const uint64_t id : record.schema_ids()) {
    auto wanted = WantsSchema(id);
    if (!wanted.ok() || *wanted) return wanted;
  }
  return false;
}

absl::Status RunFilter::MapTables(std::string_view packed_ids) {
  if (packed_ids.size() % 8 != 0) return DamagedStore("a run of the log");
  for (size_t at = 0; at < packed_ids.size(); at += 8) {
    uint64_t id = 0;
    for (int i = 7; i >= 0; --i) id = id << 8 | static_cast<unsigned char>(packed_ids[at + i]);
    auto wanted = WantsSchema(id);
    if (!wanted.ok()) return wanted.status();
    run_ids_.push_back(id);
    run_wanted_.push_back(*wanted);
    index_in_cut_.push_back(kDropped);
  }
  return absl::OkStatus();
}

absl::Status RunFilter::CutChange(std::string_view change) {
  uint64_t op = 0;
  uint64_t table = 0;
  size_t head_bytes = 0;
  WireFields fields(change);
  WireField field;
  while (fields.Next(&field) && field.number <= v1::Change::kTableFieldNumber) {
    if (field.wire_type != 0) return DamagedStore("a run of the log");
    (field.number == v1::Change::kOpFieldNumber ? op : table) = field.number_value;
    head_bytes += field.whole.size();
  }
  if (!fields.ok() || table >= run_ids_.size() || op >= 32) return DamagedStore("a run of the log");
  change_kept_ = run_wanted_[table] && (ops_ >> op & 1) != 0;
  if (!change_kept_) return absl::OkStatus();
  ++kept_;
  if (index_in_cut_[table] == kDropped) {
    index_in_cut_[table] = static_cast<int>(cut_ids_.size());
    cut_ids_.push_back(run_ids_[table]);
  }
  std::string head;
  AppendVarintField(&head, v1::Change::kOpFieldNumber, op);
  if (index_in_cut_[table] != 0) {
    AppendVarintField(&head, v1::Change::kTableFieldNumber, index_in_cut_[table]);
  }
  const std::string_view rest = change.substr(head_bytes);
  AppendLengthHead(&cut_changes_, v1::Run::kChangesFieldNumber, head.size() + rest.size());
  cut_changes_.append(head).append(rest);
  return absl::OkStatus();
}

absl::StatusOr<CutRun> RunFilter::Cut(std::string_view run, uint32_t part) {
  if (part > 0) return CutRun{change_kept_ ? run : std::string_view(), 0};
  run_ids_.clear();
  run_wanted_.clear();
  index_in_cut_.clear();
  cut_ids_.clear();
  cut_changes_.clear();
  kept_ = 0;
  std::string_view sequence;
  uint64_t changes = 0;
  WireFields fields(run);
  WireField field;
  bool mapped = false;
  bool whole = false;
  while (fields.Next(&field)) {
    if (field.number == v1::Run::kSchemaIdsFieldNumber) {
      if (const auto status = MapTables(field.bytes); !status.ok()) return status;
      continue;
    }
    if (!mapped) {
      mapped = true;
      bool all = true;
      bool any = false;
      for (const bool wanted : run_wanted_) {
        all = all && wanted;
        any = any || wanted;
      }
      if (!any) {
        change_kept_ = false;
        return CutRun{};
      }
      whole = all && ops_ == kAllOps;
    }
    if (field.number == v1::Run::kChangesFieldNumber) {
      ++changes;
      if (whole) continue;
      if (const auto status = CutChange(field.bytes); !status.ok()) return status;
    } else if (field.number == v1::Run::kFirstSequenceFieldNumber) {
      sequence = field.whole;
    }
  }
  if (!fields.ok()) return DamagedStore("a run of the log");
  if (whole) {
    change_kept_ = true;
    return CutRun{run, changes};
  }
  if (kept_ == 0) return CutRun{};
  cut_.clear();
  AppendLengthHead(&cut_, v1::Run::kSchemaIdsFieldNumber, cut_ids_.size() * 8);
  for (const uint64_t id : cut_ids_) AppendFixed64(&cut_, id);
  cut_.append(cut_changes_).append(sequence);
  return CutRun{cut_, kept_};
}

}  // namespace tidemark
