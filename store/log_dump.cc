#include "store/log_dump.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "store/database.h"
#include "store/feed_facts.h"
#include "store/line_text.h"
#include "store/log_scan.h"
#include "store/stored_rows_reader.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::store {
namespace {

struct Opened {
  std::unique_ptr<Database> database;
  std::vector<FeedFacts> feeds;
};

absl::StatusOr<Opened> Open(const DumpOptions& options) {
  StoreOptions store = options.store;
  store.read_only = true;
  auto database = Database::Open(store);
  if (!database.ok()) return database.status();
  auto feeds = ReadFeedFacts(**database, options.feed);
  if (!feeds.ok()) return feeds.status();
  return Opened{*std::move(database), *std::move(feeds)};
}

bool Wanted(const DumpOptions& options, const v1::TableSchema& schema) {
  return !options.tables || options.tables->Matches(schema.schema_name(), schema.table_name());
}

// The log of one feed.
class LogPrinter {
 public:
  LogPrinter(const DumpOptions& options, const FeedFacts& facts, const PrintLine& print)
      : options_(options), facts_(facts), print_(print) {}

  void Add(const ScannedEntry& entry) {
    if (entry.first) {
      PrintGapsBefore(entry.position);
      header_ = TransactionLine(entry, options_.json);
      // With a choice of tables, only once a change is wanted.
      if (!options_.tables) PrintHeader();
    }
    if (!entry.defect.empty()) {
      ScannedEntry run = entry;
      print_(DefectLine(run, options_.json));
    }
    if (entry.run.empty() || (options_.transactions_only && !options_.tables)) return;
    if (run_.ParseFromArray(entry.run.data(), static_cast<int>(entry.run.size()))) {
      for (const v1::Change& change : run_.changes()) AddChange(entry, change);
    } else {
      PrintDefect(entry, "its run is no tidemark.v1.Run");
    }
  }

  // Those that nothing stands behind.
  void Finish(const std::optional<Position>& upto) {
    for (; gap_ < facts_.gaps.size() && (!upto || facts_.gaps[gap_].to <= *upto); ++gap_) {
      print_(GapLine(facts_, facts_.gaps[gap_], options_.json));
    }
  }

 private:
  void PrintGapsBefore(const Position& position) {
    for (; gap_ < facts_.gaps.size() && facts_.gaps[gap_].to < position; ++gap_) {
      const bool wanted = !options_.after || facts_.gaps[gap_].to > *options_.after;
      if (wanted) print_(GapLine(facts_, facts_.gaps[gap_], options_.json));
    }
  }

  void PrintHeader() {
    if (!header_.empty()) print_(header_);
    header_.clear();
  }

  void PrintDefect(const ScannedEntry& entry, std::string text) {
    ScannedEntry defect = entry;
    defect.defect = std::move(text);
    print_(DefectLine(defect, options_.json));
  }

  void AddChange(const ScannedEntry& entry, const v1::Change& change) {
    const bool named = change.table() < static_cast<uint32_t>(run_.schema_ids_size());
    const uint64_t id = named ? run_.schema_ids(static_cast<int>(change.table())) : 0;
    const auto schema = facts_.schemas.find(id);
    if (schema == facts_.schemas.end()) {
      PrintDefect(entry, fmt::format("a change names schema {:016x}, which is not there", id));
      return;
    }
    if (!Wanted(options_, schema->second)) return;
    PrintHeader();
    if (options_.transactions_only) return;
    print_(ChangeLine(entry.position, entry.sequence + change.ordinal(), schema->second, change,
                      options_.json));
  }

  const DumpOptions& options_;
  const FeedFacts& facts_;
  const PrintLine& print_;
  std::string header_;
  size_t gap_ = 0;
  v1::Run run_;
};

absl::Status DumpFeedLog(const DumpOptions& options, const Database& database,
                         const FeedFacts& facts, const PrintLine& print) {
  print(FeedLine(facts, options.json));
  LogScan scan(database, facts.id, options.after.value_or(Position()));
  LogPrinter printer(options, facts, print);
  ScannedEntry entry;
  for (;;) {
    const absl::StatusOr<bool> more = scan.Next(&entry);
    if (!more.ok()) return more.status();
    if (!*more || (options.until && entry.position > *options.until)) {
      printer.Finish(options.until);
      return absl::OkStatus();
    }
    printer.Add(entry);
  }
}

absl::Status DumpFeedRows(const DumpOptions& options, const Database& database,
                          const FeedFacts& facts, const PrintLine& print) {
  const auto reader = StoredRowsReader::Open(database, facts.id);
  if (!reader.ok()) return reader.status();
  if (!options.json) {
    print(fmt::format("feed {}  rows at {}", facts.name, (*reader)->boundary().Text()));
  }
  StoredRow row;
  v1::Row message;
  for (;;) {
    const absl::StatusOr<bool> more = (*reader)->Next(&row);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    const auto schema = facts.schemas.find(row.schema_id);
    if (schema == facts.schemas.end() ||
        !message.ParseFromArray(row.values.data(), static_cast<int>(row.values.size()))) {
      ScannedEntry defect;
      defect.position = row.position;
      defect.sequence = row.sequence;
      defect.defect = "a current row that is unreadable, or whose schema is not there";
      print(DefectLine(defect, options.json));
      continue;
    }
    if (!Wanted(options, schema->second)) continue;
    print(RowLine(row.position, row.sequence, schema->second, message.values(), options.json));
  }
}

}  // namespace

absl::Status DumpFeeds(const DumpOptions& options, const PrintLine& print) {
  const auto opened = Open(options);
  if (!opened.ok()) return opened.status();
  for (const FeedFacts& facts : opened->feeds) print(FeedLine(facts, options.json));
  return absl::OkStatus();
}

absl::Status DumpSchemas(const DumpOptions& options, const PrintLine& print) {
  const auto opened = Open(options);
  if (!opened.ok()) return opened.status();
  for (const FeedFacts& facts : opened->feeds) {
    for (const auto& [id, schema] : facts.schemas) {
      if (Wanted(options, schema)) print(SchemaLine(facts, schema, options.json));
    }
    for (const SchemaStep& step : facts.history) {
      print(SchemaSinceLine(facts, step, options.json));
    }
  }
  return absl::OkStatus();
}

absl::Status DumpLog(const DumpOptions& options, const PrintLine& print) {
  const auto opened = Open(options);
  if (!opened.ok()) return opened.status();
  for (const FeedFacts& facts : opened->feeds) {
    if (absl::Status s = DumpFeedLog(options, *opened->database, facts, print); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status DumpRows(const DumpOptions& options, const PrintLine& print) {
  const auto opened = Open(options);
  if (!opened.ok()) return opened.status();
  for (const FeedFacts& facts : opened->feeds) {
    if (absl::Status s = DumpFeedRows(options, *opened->database, facts, print); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace tidemark::store
