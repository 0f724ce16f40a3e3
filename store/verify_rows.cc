#include "store/verify_rows.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "proto/table_name.h"
#include "rocksdb/iterator.h"
#include "store/identity_key.h"
#include "store/log_scan.h"

namespace tidemark::store {
namespace {

size_t HashOf(std::string_view key) { return std::hash<std::string_view>{}(key); }

std::string Hex(std::string_view bytes) {
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

// feed (4) | 0x01 | schema name | 0x00 | table name | 0x00; the whole key if it is no such.
std::string_view TablePrefixOf(std::string_view key) {
  const size_t schema_end = key.find('\0', 5);
  if (schema_end == std::string_view::npos) return key;
  const size_t table_end = key.find('\0', schema_end + 1);
  return table_end == std::string_view::npos ? key : key.substr(0, table_end + 1);
}

}  // namespace

absl::Status RowsCheck::Run() {
  if (absl::Status s = FoldLog(); !s.ok()) return s;
  return ScanRows();
}

void RowsCheck::Report(std::string_view check, const Place& place, std::string text) const {
  report_({check, facts_.name, place.position, place.sequence, std::move(text)});
}

RowsCheck::Table* RowsCheck::TableOf(std::string_view key) {
  const std::string_view prefix = TablePrefixOf(key);
  auto found = tables_.find(prefix);
  if (found == tables_.end()) {
    found = tables_.emplace(std::string(prefix), Table()).first;
    const size_t split = prefix.find('\0', 5);
    if (split != std::string_view::npos && prefix.size() > split + 1) {
      found->second.name = TableNameText(prefix.substr(5, split - 5),
                                         prefix.substr(split + 1, prefix.size() - split - 2));
    }
  }
  return &found->second;
}

RowsCheck::Place RowsCheck::PlaceOf(const StoredRow& row) const {
  return {row.position == Position() ? facts_.rows->snapshot : row.position, row.sequence};
}

// Which tables keep rows is configuration, which the store does not hold: those that have some do.
bool RowsCheck::KeepsRows(const v1::TableSchema& schema) {
  const std::string prefix = RowsTablePrefix(facts_.id, schema.schema_name(), schema.table_name());
  Table* table = TableOf(prefix);
  if (!table->has_rows) {
    const std::unique_ptr<rocksdb::Iterator> at(
        database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.rows()));
    at->Seek(prefix);
    table->has_rows = at->Valid() && at->key().starts_with(prefix);
  }
  if (!table->has_rows) tables_without_rows_.insert(table->name);
  return table->has_rows;
}

absl::Status RowsCheck::FoldLog() {
  Fold fold(facts_.id,
            {.schema = [this](uint64_t id) -> absl::StatusOr<v1::TableSchema> {
               const auto schema = facts_.schemas.find(id);
               if (schema != facts_.schemas.end()) return schema->second;
               return absl::NotFoundError(fmt::format("schema {:016x} is missing", id));
             },
             .keeps_rows = [this](const v1::TableSchema& schema) { return KeepsRows(schema); },
             // The rows before the log are gone: a column that the log leaves absent stays so, and
             // is not compared.
             .stored_row = [](std::string_view) -> absl::StatusOr<std::optional<std::string>> {
               return std::nullopt;
             }});
  LogScan scan(database_, facts_.id, Position());
  ScannedEntry entry;
  for (;;) {
    const absl::StatusOr<bool> more = scan.Next(&entry);
    if (!more.ok()) return more.status();
    if (!*more || entry.position > facts_.rows->folded) break;
    if (fold.bytes() >= kFoldStretchBytes && entry.part == 0) {
      const absl::StatusOr<FoldedRows> folded = fold.Take();
      if (!folded.ok()) return folded.status();
      if (absl::Status s = Compare(*folded, {entry.position, entry.sequence}); !s.ok()) return s;
    }
    StoredRun run;
    run.position = entry.position;
    run.first_sequence = entry.sequence;
    run.part = entry.part;
    run.bytes = entry.run;
    if (const absl::Status added = fold.Add(run); !added.ok()) {
      Report(check::kFold, {entry.position, entry.sequence},
             fmt::format("the log cannot be folded from entry {} on, so the rows are not compared "
                         "further: {}",
                         entry.Name(), std::string(added.message())));
      return absl::OkStatus();
    }
  }
  const absl::StatusOr<FoldedRows> folded = fold.Take();
  if (!folded.ok()) return folded.status();
  if (absl::Status s = Compare(*folded, {facts_.rows->folded, UINT64_MAX}); !s.ok()) return s;
  compared_ = true;
  ReportMissing();
  return absl::OkStatus();
}

absl::Status RowsCheck::Compare(const FoldedRows& folded, const Place& end) {
  for (const std::string& prefix : folded.truncated) {
    Table* table = TableOf(prefix);
    table->truncated = true;
    table->confirmed.clear();
    table->missing.clear();
  }
  for (const FoldedRow& row : folded.rows) {
    if (absl::Status s = CompareRow(row, end); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status RowsCheck::CompareRow(const FoldedRow& folded, const Place& end) {
  Table* table = TableOf(folded.key);
  const size_t hash = HashOf(folded.key);
  std::string value;
  const rocksdb::Status got =
      database_.rocks()->Get(rocksdb::ReadOptions(), database_.rows(),
                             rocksdb::Slice(folded.key.data(), folded.key.size()), &value);
  if (!got.ok() && !got.IsNotFound()) return database_.Error(got, "read a current row");
  const std::optional<StoredRow> stored = got.ok() ? DecodeRow(value) : std::nullopt;
  // Written again further on in the log.
  if (stored && PlaceOf(*stored) >= end) return absl::OkStatus();
  table->missing.erase(hash);
  if (folded.deleted) {
    table->confirmed.erase(hash);
    if (!stored) return absl::OkStatus();
    Report(check::kFold, PlaceOf(*stored),
           fmt::format("table {}: row {} is there as of {}/{}, though the log removes it later",
                       table->name, Hex(folded.key), PlaceOf(*stored).position.Text(),
                       stored->sequence));
    return absl::OkStatus();
  }
  const StoredRow expected = *DecodeRow(folded.value);
  if (!stored) {
    table->missing[hash] = PlaceOf(expected);
    return absl::OkStatus();
  }
  table->confirmed.insert(hash);
  CompareValues(folded.key, *stored, expected);
  return absl::OkStatus();
}

void RowsCheck::CompareValues(std::string_view key, const StoredRow& stored,
                              const StoredRow& folded) {
  const std::string& table = TableOf(key)->name;
  const Place place = PlaceOf(folded);
  if (PlaceOf(stored) != place) {
    Report(check::kFold, place,
           fmt::format("table {}: row {} is as of {}/{}, though the log's last change of it is "
                       "{}/{}",
                       table, Hex(key), PlaceOf(stored).position.Text(), stored.sequence,
                       place.position.Text(), place.sequence));
    return;
  }
  std::vector<std::string_view> have;
  std::vector<std::string_view> want;
  bool equal = stored.schema_id == folded.schema_id && SplitRowFields(stored.values, &have) &&
               SplitRowFields(folded.values, &want) && have.size() == want.size();
  for (size_t i = 0; equal && i < want.size(); ++i) equal = want[i].empty() || have[i] == want[i];
  if (equal) return;
  Report(check::kFold, place,
         fmt::format("table {}: row {} does not hold the values that the log wrote at {}/{}", table,
                     Hex(key), place.position.Text(), place.sequence));
}

void RowsCheck::ReportMissing() {
  for (const auto& [prefix, table] : tables_) {
    for (const auto& [hash, place] : table.missing) {
      Report(check::kFold, place,
             fmt::format("table {}: the row that the log wrote at {}/{} is not there", table.name,
                         place.position.Text(), place.sequence));
    }
  }
}

absl::Status RowsCheck::ScanRows() {
  const std::string end_key = FeedPrefix(facts_.id + 1);
  const rocksdb::Slice end = end_key;
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> at(
      database_.rocks()->NewIterator(options, database_.rows()));
  at->Seek(RowsMarkerKey(facts_.id));
  for (at->Next(); at->Valid(); at->Next()) {
    ++rows_;
    const std::string_view key = at->key().ToStringView();
    const std::optional<StoredRow> row = DecodeRow(at->value().ToStringView());
    if (row) {
      CheckRow(key, *row);
    } else {
      Report(check::kRow, {}, fmt::format("row {} is shorter than its header", Hex(key)));
    }
  }
  return database_.Error(at->status(), "read the current rows");
}

void RowsCheck::CheckRow(std::string_view key, const StoredRow& row) {
  CheckKey(key, row);
  const Place place = PlaceOf(row);
  if (place.position > facts_.rows->folded) {
    Report(check::kRow, place,
           fmt::format("row {} is as of {}, behind the rows' own boundary {}", Hex(key),
                       place.position.Text(), facts_.rows->folded.Text()));
    return;
  }
  if (!compared_ || !facts_.floor) return;
  const Table* table = TableOf(key);
  if (place.position > *facts_.floor) {
    if (table->confirmed.contains(HashOf(key))) return;
    Report(
        check::kFold, place,
        fmt::format("table {}: row {} is as of {}/{}, where the log holds no change that left it",
                    table->name, Hex(key), place.position.Text(), place.sequence));
  } else if (table->truncated) {
    Report(check::kFold, place,
           fmt::format("table {}: row {} is as of {}/{}, though the log truncates the table later",
                       table->name, Hex(key), place.position.Text(), place.sequence));
  }
}

void RowsCheck::CheckKey(std::string_view key, const StoredRow& row) {
  const auto report = [&](std::string_view what) {
    Report(check::kRow, PlaceOf(row), fmt::format("row {}: {}", Hex(key), what));
  };
  const auto schema = facts_.schemas.find(row.schema_id);
  if (schema == facts_.schemas.end()) {
    return report(fmt::format("its schema {:016x} is not in the store", row.schema_id));
  }
  std::vector<std::string_view> values;
  if (!SplitRowFields(row.values, &values) ||
      values.size() != static_cast<size_t>(schema->second.columns_size())) {
    return report("its values are not those of its schema");
  }
  std::string expected =
      RowsTablePrefix(facts_.id, schema->second.schema_name(), schema->second.table_name());
  for (const uint32_t column : schema->second.key_columns()) {
    if (column >= values.size() || !AppendIdentityValue(values[column], &expected).ok()) {
      return report("its values give no key");
    }
  }
  if (expected != key) report(fmt::format("its values give another key, {}", Hex(expected)));
}

}  // namespace tidemark::store
