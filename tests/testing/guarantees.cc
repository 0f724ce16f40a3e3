#include "tests/testing/guarantees.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "proto/position.h"
#include "proto/reason.h"

namespace tidemark::testing {
namespace {

using Transactions = std::vector<RecordedTransaction>;

absl::Status Violation(std::string_view definition, const std::string& found) {
  return absl::FailedPreconditionError(fmt::format("{} Found: {}", definition, found));
}

constexpr std::string_view kOrdered =
    "Ordered: (position, sequence) rises strictly through a stream, and equals the source's commit "
    "order, then log order.";
constexpr std::string_view kWhole =
    "Whole: a reader never gets part of a commit presented as finished. A cursor exists only at a "
    "commit boundary.";
constexpr std::string_view kComplete =
    "Complete: nothing committed at the source after the start point and inside the filter is "
    "missing.";
constexpr std::string_view kOnce =
    "Once: a client that stores the cursor with its effects sees each change once; what comes "
    "again "
    "after a break is equal.";
constexpr std::string_view kSchemas =
    "Schemas: a table's schema changes only where a SchemaChange record says so.";
constexpr std::string_view kLoud =
    "Loud: where a stream goes from one generation to the next, a Gap record stands between.";
constexpr std::string_view kResumable =
    "Resumable: every cursor ever handed out either resumes exactly behind its commit or fails "
    "with "
    "a reason that says what to do.";
constexpr std::string_view kBounded =
    "Bounded: a read up to a bound delivers exactly the transactions at or before it, then ends "
    "with "
    "OK and a cursor.";
constexpr std::string_view kProgressing =
    "Progressing: the cursor of an idle or fully filtered subscriber moves; no silence is longer "
    "than the server promised.";
constexpr std::string_view kDurable =
    "Durable: the source is told \"confirmed\" only for what is fsynced here.";

bool IsFiltered(const v1::SubscribeRequest& request) {
  const v1::Filter& filter = request.filter();
  return filter.tables_size() > 0 || filter.ops_size() > 0 || filter.columns_size() > 0 ||
         filter.has_key_partition();
}

bool HasRows(const RecordedSegment& segment) {
  for (const RecordedEvent& event : segment.events) {
    if (event.record.opened().rows_follow()) return true;
  }
  return false;
}

absl::Status CheckTransactionOrder(const RecordedTransaction& transaction) {
  const RecordedChange* before = nullptr;
  for (const RecordedChange& change : transaction.changes) {
    if (before != nullptr && change.sequence <= before->sequence) {
      return Violation(kOrdered, fmt::format("{} behind {}", Describe(change), Describe(*before)));
    }
    before = &change;
  }
  return absl::OkStatus();
}

absl::Status CheckTransactionWhole(const RecordedTransaction& transaction, bool filtered,
                                   bool in_bootstrap) {
  if (!transaction.finished) return absl::OkStatus();
  const auto& [position, xid, changes, cursor, total, delivered, finished] = transaction;
  const std::string found = fmt::format(
      "transaction {} is finished with {} of {} delivered of {} "
      "changes, cursor '{}'",
      position, changes.size(), delivered, total, cursor);
  if (changes.size() != delivered || delivered > total) return Violation(kWhole, found);
  if (cursor.empty() != in_bootstrap) return Violation(kWhole, found);
  if (changes.empty()) return Violation(kWhole, found);
  if (changes.back().sequence >= total) return Violation(kWhole, found);
  // Without a filter the sequence numbers are 0 to total - 1, since they rise.
  if (!filtered && delivered != total) return Violation(kWhole, found);
  return absl::OkStatus();
}

// Positions of the transactions that a segment sends before its Rows.last: they belong to the
// bootstrap and come without a cursor.
std::set<std::string> BootstrapPositions(const RecordedSegment& segment) {
  std::set<std::string> positions;
  std::set<std::string> so_far;
  for (const RecordedEvent& event : segment.events) {
    for (const auto& part : event.record.batch().transactions()) so_far.insert(part.position());
    if (event.record.rows().last()) positions = so_far;
  }
  if (positions.empty() && HasRows(segment)) {
    const bool complete =
        std::any_of(segment.events.begin(), segment.events.end(),
                    [](const RecordedEvent& event) { return event.record.rows().last(); });
    if (!complete) return so_far;
  }
  return positions;
}

Columns Shared(const Columns& columns, const Columns& with) {
  Columns shared;
  for (const auto& [name, value] : columns) {
    if (with.count(name) > 0) shared[name] = value;
  }
  return shared;
}

// The oracle says nothing of the columns it does not know, and the feed fills them.
bool SameChange(const RecordedChange& seen, const OracleChange& expected) {
  if (seen.op != expected.op || seen.table != expected.table) return false;
  if (seen.op == "delete") return Shared(expected.columns, seen.key) == seen.key;
  return Shared(seen.columns, expected.columns) == expected.columns;
}

std::string DescribeExpected(const OracleChange& change) {
  return fmt::format("{} {} {}", change.op, change.table, DescribeColumns(change.columns));
}

uint64_t LsnOf(const std::string& position) {
  const auto parsed = Position::FromText(position);
  return parsed.ok() ? parsed->engine_low() : 0;
}

absl::Status CompareTransaction(const RecordedTransaction& seen,
                                const OracleTransaction& expected) {
  for (size_t i = 0; i < std::max(seen.changes.size(), expected.changes.size()); ++i) {
    const bool both = i < seen.changes.size() && i < expected.changes.size();
    if (both && SameChange(seen.changes[i], expected.changes[i])) continue;
    return Violation(
        kComplete,
        fmt::format(
            "in transaction {} (xid {}) change {} is '{}', the source says '{}'", seen.position,
            expected.xid, i, i < seen.changes.size() ? Describe(seen.changes[i]) : "missing",
            i < expected.changes.size() ? DescribeExpected(expected.changes[i]) : "nothing"));
  }
  return absl::OkStatus();
}

// Per table and key: the changes in order. The key columns are those that the feed names.
using Histories = std::map<std::string, std::vector<std::string>>;

std::map<std::string, std::set<std::string>> KeyNames(const Transactions& seen) {
  std::map<std::string, std::set<std::string>> names;
  for (const RecordedTransaction& transaction : seen) {
    for (const RecordedChange& change : transaction.changes) {
      for (const auto& [name, value] : change.key) names[change.table].insert(name);
    }
  }
  return names;
}

std::string ChangeText(const std::string& op, const Columns& columns) {
  return op + " " + (op == "delete" ? "" : DescribeColumns(columns));
}

absl::Status CompareHistories(const Transactions& seen,
                              const std::vector<OracleTransaction>& oracle, bool last_only) {
  const auto key_names = KeyNames(seen);
  Histories found;
  Histories expected;
  for (const RecordedTransaction& transaction : seen) {
    for (const RecordedChange& change : transaction.changes) {
      found[change.table + " " + DescribeColumns(change.key)].push_back(
          ChangeText(change.op, change.columns));
    }
  }
  for (const OracleTransaction& transaction : oracle) {
    for (const OracleChange& change : transaction.changes) {
      Columns key;
      if (const auto names = key_names.find(change.table); names != key_names.end()) {
        for (const auto& [name, value] : change.columns) {
          if (names->second.count(name) > 0) key[name] = value;
        }
      }
      expected[change.table + " " + DescribeColumns(key)].push_back(
          ChangeText(change.op, change.columns));
    }
  }
  if (last_only) {
    for (Histories* histories : {&found, &expected}) {
      for (auto& [key, changes] : *histories) {
        std::string last = changes.back();
        // A polled source cannot tell an insert from an update.
        if (last.rfind("delete", 0) != 0) last = last.substr(last.find(' '));
        changes = {last};
      }
    }
  }
  for (const auto& [key, changes] : expected) {
    if (found[key] == changes) continue;
    return Violation(kComplete, fmt::format("{} went through [{}], the source says [{}]", key,
                                            fmt::join(found[key], "; "), fmt::join(changes, "; ")));
  }
  for (const auto& [key, changes] : found) {
    if (expected.count(key) > 0) continue;
    return Violation(kComplete, fmt::format("{} was never written at the source", key));
  }
  return absl::OkStatus();
}

// What came in part before a break must be how it begins when it comes again.
absl::Status CheckRepeated(const RecordedTransaction& before, const RecordedTransaction& again) {
  const size_t both = std::min(before.changes.size(), again.changes.size());
  for (size_t i = 0; i < both; ++i) {
    if (before.changes[i] == again.changes[i]) continue;
    return Violation(kOnce, fmt::format("'{}' came again as '{}'", Describe(before.changes[i]),
                                        Describe(again.changes[i])));
  }
  if (again.finished && again.changes.size() < before.changes.size()) {
    return Violation(kOnce,
                     fmt::format("transaction {} came again with {} of {} changes", again.position,
                                 again.changes.size(), before.changes.size()));
  }
  return absl::OkStatus();
}

std::string PositionAfter(const Transactions& seen, const std::string& position) {
  for (const RecordedTransaction& transaction : seen) {
    if (transaction.position > position) return transaction.position;
  }
  return {};
}

}  // namespace

absl::Status CheckOrdered(const RecordedStream& stream) {
  for (const RecordedSegment& segment : stream.segments()) {
    const auto transactions = TransactionsOf(segment);
    if (!transactions.ok())
      return Violation(kOrdered, std::string(transactions.status().message()));
    std::string last;
    for (const RecordedTransaction& transaction : *transactions) {
      if (!Position::FromText(transaction.position).ok()) {
        return Violation(kOrdered, fmt::format("'{}' is no position", transaction.position));
      }
      if (transaction.position <= last) {
        return Violation(kOrdered, fmt::format("{} behind {}", transaction.position, last));
      }
      last = transaction.position;
      if (absl::Status kept = CheckTransactionOrder(transaction); !kept.ok()) return kept;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const RecordedStream& stream) {
  for (const RecordedSegment& segment : stream.segments()) {
    const auto transactions = TransactionsOf(segment);
    if (!transactions.ok()) return Violation(kWhole, std::string(transactions.status().message()));
    const std::set<std::string> bootstrap = BootstrapPositions(segment);
    for (const RecordedTransaction& transaction : *transactions) {
      // A bootstrap brings only those tables of a commit that have no rows.
      const bool in_bootstrap = bootstrap.count(transaction.position) > 0;
      const bool filtered = IsFiltered(segment.request) || in_bootstrap;
      absl::Status kept = CheckTransactionWhole(transaction, filtered, in_bootstrap);
      if (!kept.ok()) return kept;
    }
  }
  return absl::OkStatus();
}

absl::Status CompareWithOracle(const std::vector<RecordedTransaction>& seen,
                               const std::vector<OracleTransaction>& oracle) {
  for (size_t i = 0; i < std::max(seen.size(), oracle.size()); ++i) {
    if (i >= seen.size()) {
      return Violation(kComplete, fmt::format("transaction {} of {} is missing: xid {}, end {:X}, "
                                              "first change {}",
                                              i, oracle.size(), oracle[i].xid, oracle[i].end_lsn,
                                              DescribeExpected(oracle[i].changes.front())));
    }
    if (i >= oracle.size()) {
      return Violation(kComplete,
                       fmt::format("transaction {} is not the source's", seen[i].position));
    }
    if (LsnOf(seen[i].position) != oracle[i].end_lsn) {
      return Violation(kComplete,
                       fmt::format("transaction {} is at {}, the source's (xid {}) at {:X}", i,
                                   seen[i].position, oracle[i].xid, oracle[i].end_lsn));
    }
    if (absl::Status same = CompareTransaction(seen[i], oracle[i]); !same.ok()) return same;
  }
  return absl::OkStatus();
}

absl::Status CheckComplete(const RecordedStream& stream,
                           const std::vector<OracleTransaction>& oracle,
                           v1::CompletenessClass completeness) {
  const auto seen = SeenTransactions(stream);
  if (!seen.ok()) return Violation(kComplete, std::string(seen.status().message()));
  switch (completeness) {
    case v1::COMPLETENESS_CLASS_LOG_EXACT:
      return CompareWithOracle(*seen, oracle);
    case v1::COMPLETENESS_CLASS_CHANGELOG:
      return CompareHistories(*seen, oracle, false);
    default:
      return CompareHistories(*seen, oracle, true);
  }
}

absl::Status CheckOnce(const RecordedStream& stream) {
  std::string last_finished;
  RecordedTransaction unfinished;
  for (const RecordedSegment& segment : stream.segments()) {
    if (HasRows(segment)) {
      // The client forgets what it had: a bootstrap begins with nothing.
      last_finished.clear();
      unfinished = {};
    }
    const auto transactions = TransactionsOf(segment);
    if (!transactions.ok()) return Violation(kOnce, std::string(transactions.status().message()));
    for (const RecordedTransaction& transaction : *transactions) {
      if (transaction.position <= last_finished) {
        return Violation(kOnce, fmt::format("transaction {} came again behind {}",
                                            transaction.position, last_finished));
      }
      if (!unfinished.position.empty()) {
        if (transaction.position != unfinished.position) {
          return Violation(kOnce, fmt::format("{} came in part, then {} in its place",
                                              unfinished.position, transaction.position));
        }
        absl::Status same = CheckRepeated(unfinished, transaction);
        if (!same.ok()) return same;
      }
      if (transaction.finished) {
        last_finished = transaction.position;
        unfinished = {};
      } else if (transaction.changes.size() >= unfinished.changes.size()) {
        unfinished = transaction;
      }
    }
  }
  return absl::OkStatus();
}

namespace {

// The schemas in force on one stream, by table.
class SchemasInForce {
 public:
  absl::Status Take(const v1::SubscribeResponse& record) {
    if (record.has_table_schema()) {
      const v1::TableSchema& schema = record.table_schema();
      tables_[schema.schema_id()] = schema.schema_name() + "." + schema.table_name();
    }
    if (record.has_schema_change()) return Change(record.schema_change());
    for (const v1::Transaction& part : record.batch().transactions()) {
      for (const v1::Run& run : part.runs()) {
        for (const v1::Change& change : run.changes()) {
          const Place place(part.position(), run.first_sequence() + change.ordinal());
          const uint64_t schema_id = run.schema_ids(static_cast<int>(change.table()));
          if (absl::Status used = Use(schema_id, place); !used.ok()) return used;
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  using Place = std::pair<std::string, uint64_t>;

  static std::string Text(const Place& place) {
    return fmt::format("{}/{}", place.first, place.second);
  }

  absl::Status Change(const v1::SchemaChange& change) {
    const std::string table = change.after().schema_name() + "." + change.after().table_name();
    const Place place(change.position(), change.sequence());
    const auto before = in_force_.find(table);
    if (before != in_force_.end() && before->second != change.before_schema_id()) {
      return Violation(
          kSchemas, fmt::format("the change of {} at {} is not one of the schema in force", table,
                                Text(place)));
    }
    in_force_[table] = change.after().schema_id();
    announced_[table] = place;
    return absl::OkStatus();
  }

  absl::Status Use(uint64_t schema_id, const Place& place) {
    const std::string& table = tables_[schema_id];
    if (in_force_.try_emplace(table, schema_id).first->second != schema_id) {
      return Violation(kSchemas,
                       fmt::format("{} has another schema at {}, of which nothing was said", table,
                                   Text(place)));
    }
    const auto due = announced_.find(table);
    if (due == announced_.end() || due->second <= place) return absl::OkStatus();
    return Violation(kSchemas, fmt::format("{} was to change at {}, and is changed before, at {}",
                                           table, Text(due->second), Text(place)));
  }

  std::map<uint64_t, std::string> tables_;
  std::map<std::string, uint64_t> in_force_;
  // Where it was said last that the schema changes.
  std::map<std::string, Place> announced_;
};

}  // namespace

absl::Status CheckSchemas(const RecordedStream& stream) {
  for (const RecordedSegment& segment : stream.segments()) {
    SchemasInForce schemas;
    for (const RecordedEvent& event : segment.events) {
      if (absl::Status kept = schemas.Take(event.record); !kept.ok()) return kept;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGaps(const RecordedStream& stream) {
  for (const RecordedSegment& segment : stream.segments()) {
    uint32_t generation = 0;
    uint32_t gaps = 0;
    uint32_t moves = stream.moves_to_the_log() ? 1 : 0;
    std::string last;
    for (const RecordedEvent& event : segment.events) {
      if (event.record.has_gap()) ++gaps;
      for (const v1::Transaction& part : event.record.batch().transactions()) {
        const auto position = Position::FromText(part.position());
        if (!position.ok()) return Violation(kLoud, "an unreadable position " + part.position());
        if (generation != 0 && position->generation() > generation + gaps + moves) {
          return Violation(kLoud, fmt::format("{} came behind {}, with {} gaps between",
                                              part.position(), last, gaps));
        }
        if (generation != 0 && position->generation() > generation + gaps) moves = 0;
        if (position->generation() != generation) gaps = 0;
        generation = position->generation();
        last = part.position();
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckResumable(const RecordedStream& stream, const ResumeAt& resume_at,
                            size_t cursors_max) {
  static const std::set<std::string> telling = {
      std::string(reason::kCursorExpired), std::string(reason::kCursorAhead),
      std::string(reason::kCursorDiverged), std::string(reason::kCursorOtherFeed)};
  const auto seen = SeenTransactions(stream);
  if (!seen.ok()) return Violation(kResumable, std::string(seen.status().message()));
  const size_t steps =
      cursors_max > 1 && seen->size() > cursors_max ? cursors_max - 1 : seen->size();
  for (size_t i = 0; i < seen->size(); ++i) {
    // Of as many stretches as there are steps, the last of each, and the very first.
    const bool tried = i == 0 || i * steps / seen->size() != (i + 1) * steps / seen->size();
    const RecordedTransaction& transaction = (*seen)[i];
    if (!tried || transaction.cursor.empty()) continue;
    const absl::StatusOr<std::string> first = resume_at(transaction.cursor);
    if (!first.ok()) {
      if (telling.count(ReasonOf(first.status())) > 0) continue;
      return Violation(kResumable, fmt::format("the cursor of {} fails with '{}'",
                                               transaction.position, first.status().ToString()));
    }
    const std::string next = PositionAfter(*seen, transaction.position);
    // Behind the last one seen, anything newer is right.
    if (next.empty() ? first->empty() || *first > transaction.position : *first == next) continue;
    return Violation(kResumable, fmt::format("the cursor of {} resumes at {} instead of {}",
                                             transaction.position, *first, next));
  }
  return absl::OkStatus();
}

absl::Status CheckBounded(const RecordedStream& stream, const std::string& bound,
                          const std::vector<std::string>& positions_within) {
  const auto seen = SeenTransactions(stream);
  if (!seen.ok()) return Violation(kBounded, std::string(seen.status().message()));
  std::vector<std::string> positions;
  for (const RecordedTransaction& transaction : *seen) positions.push_back(transaction.position);
  if (positions != positions_within) {
    return Violation(kBounded,
                     fmt::format("up to {}: [{}] instead of [{}]", bound, fmt::join(positions, " "),
                                 fmt::join(positions_within, " ")));
  }
  if (stream.segments().empty() || stream.segments().back().end != "OK") {
    return Violation(
        kBounded,
        fmt::format("the stream ended with '{}'",
                    stream.segments().empty() ? "nothing" : stream.segments().back().end));
  }
  if (stream.resume_cursor().empty()) return Violation(kBounded, "it ended without a cursor");
  return absl::OkStatus();
}

absl::Status CheckProgressing(const RecordedStream& stream) {
  for (const RecordedSegment& segment : stream.segments()) {
    std::chrono::milliseconds silence_max{0};
    bool in_bootstrap = false;
    for (const RecordedEvent& event : segment.events) {
      const v1::SubscribeResponse& record = event.record;
      if (silence_max.count() > 0 && event.waited > silence_max) {
        return Violation(kProgressing, fmt::format("nothing came for {} ms of {} ms",
                                                   event.waited.count(), silence_max.count()));
      }
      if (record.has_opened()) {
        const auto& promised = record.opened().longest_silence();
        silence_max = std::chrono::seconds(promised.seconds()) +
                      std::chrono::milliseconds(promised.nanos() / 1'000'000);
        in_bootstrap = record.opened().rows_follow();
      }
      if (record.rows().last()) in_bootstrap = false;
      if (record.has_progress() && record.progress().cursor().empty() != in_bootstrap) {
        return Violation(kProgressing, fmt::format("a Progress record {} the rows has cursor '{}'",
                                                   in_bootstrap ? "inside" : "behind",
                                                   record.progress().cursor()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDurable(const std::vector<DurabilityLook>& looks) {
  for (size_t i = 0; i < looks.size(); ++i) {
    if (looks[i].confirmed_lsn <= looks[i].durable_lsn) continue;
    return Violation(kDurable,
                     fmt::format("at look {} the source holds {:X} for confirmed, and {:X} "
                                 "is durable here",
                                 i, looks[i].confirmed_lsn, looks[i].durable_lsn));
  }
  return absl::OkStatus();
}

}  // namespace tidemark::testing
