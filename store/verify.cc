#include "store/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "proto/reason.h"
#include "proto/schema_id.h"
#include "store/database.h"
#include "store/disk_error.h"
#include "store/feed_facts.h"
#include "store/log_scan.h"
#include "store/open_options.h"
#include "store/verify_log.h"
#include "store/verify_rows.h"

namespace tidemark::store {
namespace {

// Apart from the store's own way of opening, and without families by name.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenFiles(const StoreOptions& options,
                                                       rocksdb::WALRecoveryMode recovery) {
  rocksdb::DBOptions database = DatabaseOptions(options);
  database.wal_recovery_mode = recovery;
  // With it, RocksDB asserts in a check of checksums on a database that is open read-only.
  database.avoid_unnecessary_blocking_io = false;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(database, options.path, Families(), &handles, &opened);
  std::unique_ptr<rocksdb::DB> rocks(opened);
  for (rocksdb::ColumnFamilyHandle* handle : handles) rocks->DestroyColumnFamilyHandle(handle);
  if (!status.ok()) return DiskError(status, "read the files of the store", options.path);
  return rocks;
}

absl::Status CheckBlocks(const StoreOptions& options) {
  const auto rocks = OpenFiles(options, rocksdb::WALRecoveryMode::kPointInTimeRecovery);
  if (!rocks.ok()) return rocks.status();
  return DiskError((*rocks)->VerifyChecksum(), "verify the files of the store", options.path);
}

// A store opens even where a record of the write-ahead log is damaged, and ends there; opened this
// way it only forgives an unfinished record at the very end.
absl::Status CheckWriteAheadLog(const StoreOptions& options) {
  return OpenFiles(options, rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords).status();
}

class FeedVerifier {
 public:
  FeedVerifier(const Database& database, const FeedFacts& facts, const ReportFinding& report,
               VerifySummary* summary)
      : database_(database), facts_(facts), report_(report), summary_(*summary) {}

  void Verify() {
    for (const std::string& defect : facts_.defects) Report(check::kMeta, std::nullopt, defect);
    CheckSchemas();
    VerifyLog();
    CheckBoundaries();
    VerifyRows();
  }

 private:
  void Report(std::string_view check, const std::optional<Position>& position, std::string text) {
    report_({check, facts_.name, position, std::nullopt, std::move(text)});
  }

  void ReportUnreadable(const absl::Status& status) {
    Report(check::kChecksum, std::nullopt, std::string(status.message()));
  }

  void CheckSchemas() {
    for (const auto& [id, schema] : facts_.schemas) {
      if (id == schema.schema_id() && id == SchemaId(schema)) continue;
      Report(check::kSchema, std::nullopt,
             fmt::format("schema {:016x} of table {} is not named by the hash of its content", id,
                         schema.table_name()));
    }
    for (const SchemaStep& step : facts_.history) {
      if (facts_.schemas.contains(step.schema_id)) continue;
      Report(check::kSchema, step.position,
             fmt::format("the schema history names schema {:016x}, which is not there",
                         step.schema_id));
    }
  }

  void VerifyLog() {
    LogCheck check(facts_, report_);
    LogScan scan(database_, facts_.id, Position());
    ScannedEntry entry;
    for (;;) {
      const absl::StatusOr<bool> more = scan.Next(&entry);
      if (!more.ok()) {
        ReportUnreadable(more.status());
        break;
      }
      if (!*more) {
        check.Finish();
        break;
      }
      if (!first_) first_ = entry.position;
      check.Add(entry);
    }
    summary_.transactions += check.transactions();
    summary_.changes += check.changes();
  }

  void CheckBoundaries() {
    const auto& last = facts_.last_transaction;
    const auto at_or_behind = [&](std::string_view what, const std::optional<Position>& low,
                                  std::string_view behind, const std::optional<Position>& high) {
      if (!low || !high || *low <= *high) return;
      Report(check::kBoundary, *low,
             fmt::format("{} {} lies behind {} {}", what, low->Text(), behind, high->Text()));
    };
    if (last && !facts_.checkpoint_position) {
      Report(check::kBoundary, last, "the log holds transactions, and there is no checkpoint");
    }
    at_or_behind("the last transaction", last, "the checkpoint", facts_.checkpoint_position);
    if (facts_.floor && first_ && *first_ <= *facts_.floor) {
      Report(check::kBoundary, first_,
             fmt::format("the log begins with {}, which the floor {} says is trimmed",
                         first_->Text(), facts_.floor->Text()));
    }
    if (facts_.snapshot && !facts_.floor) {
      Report(check::kBoundary, std::nullopt, "the snapshot is whole, and the log has no floor");
    }
    at_or_behind("the initial snapshot", facts_.snapshot, "the floor", facts_.floor);
    if (facts_.snapshot.has_value() != facts_.rows.has_value()) {
      Report(check::kBoundary, std::nullopt,
             facts_.rows ? "the rows have a boundary, though the snapshot is not whole"
                         : "the snapshot is whole, and the rows have no boundary");
    }
    for (const Gap& gap : facts_.gaps) {
      at_or_behind("the end of a generation", gap.from, "the beginning of the next", gap.to);
      at_or_behind("the beginning of a generation", gap.to, "the head", facts_.head());
    }
    if (!facts_.gaps.empty() && facts_.gaps.back().to.generation() != facts_.record.generation()) {
      Report(check::kBoundary, facts_.gaps.back().to,
             fmt::format("the last gap leads to generation {}, the feed is in generation {}",
                         facts_.gaps.back().to.generation(), facts_.record.generation()));
    }
    if (!facts_.rows) return;
    at_or_behind("the floor", facts_.floor, "the boundary of the rows", facts_.rows->folded);
    at_or_behind("the boundary of the rows", facts_.rows->folded, "the head", facts_.head());
  }

  void VerifyRows() {
    if (!facts_.rows) {
      summary_.notes.push_back(fmt::format(
          "feed {}: the initial snapshot is not whole, its rows are not checked", facts_.name));
      return;
    }
    RowsCheck rows(database_, facts_, report_);
    if (const absl::Status status = rows.Run(); !status.ok()) ReportUnreadable(status);
    summary_.rows += rows.rows();
    for (const std::string& table : rows.tables_without_rows()) {
      summary_.notes.push_back(
          fmt::format("feed {}: table {} has no current rows (they are not kept, were all removed, "
                      "or are lost), so the log is not compared with them",
                      facts_.name, table));
    }
  }

  const Database& database_;
  const FeedFacts& facts_;
  const ReportFinding& report_;
  VerifySummary& summary_;
  std::optional<Position> first_;
};

}  // namespace

absl::StatusOr<VerifySummary> VerifyStore(const VerifyOptions& options,
                                          const ReportFinding& report) {
  StoreOptions store = options.store;
  store.read_only = true;
  VerifySummary summary;
  const ReportFinding count = [&](const Finding& finding) {
    ++summary.findings;
    report(finding);
  };
  auto database = Database::Open(store);
  if (!database.ok()) return database.status();
  const auto check_files = [&](const absl::Status& status) {
    if (status.ok()) return;
    count({check::kChecksum, "", std::nullopt, std::nullopt, std::string(status.message())});
  };
  check_files(CheckWriteAheadLog(store));
  if (options.checksums) check_files(CheckBlocks(store));
  const auto feeds = ReadFeedFacts(**database, options.feed);
  if (absl::IsNotFound(feeds.status())) return feeds.status();
  if (!feeds.ok()) {
    check_files(feeds.status());
    return summary;
  }
  for (const FeedFacts& facts : *feeds) {
    ++summary.feeds;
    FeedVerifier(**database, facts, count, &summary).Verify();
  }
  return summary;
}

}  // namespace tidemark::store
