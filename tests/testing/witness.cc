#include "tests/testing/witness.h"

#include <algorithm>
#include <map>
#include <utility>

#include "proto/position.h"
#include "proto/table_name.h"
#include "tests/testing/guarantees.h"

namespace tidemark::testing {
namespace {

std::map<std::pair<std::string, std::string>, Witness>& Witnesses() {
  static auto* const witnesses = new std::map<std::pair<std::string, std::string>, Witness>;
  return *witnesses;
}

constexpr uint32_t kFirstGeneration = 1;

// Leaves those that the filter of a request lets through. False: the filter cannot be told by
// tables alone.
bool KeepAskedFor(const v1::Filter& filter, std::set<std::string>* tables) {
  if (filter.ops_size() > 0 || filter.columns_size() > 0 || filter.has_key_partition()) {
    return false;
  }
  if (filter.tables_size() == 0) return true;
  std::vector<TablePattern> patterns;
  for (const std::string& text : filter.tables()) {
    auto pattern = TablePattern::Parse(text);
    if (!pattern.ok()) return false;
    patterns.push_back(*std::move(pattern));
  }
  for (auto table = tables->begin(); table != tables->end();) {
    const size_t dot = table->find('.');
    const bool asked =
        std::any_of(patterns.begin(), patterns.end(), [&](const TablePattern& pattern) {
          return pattern.Matches(table->substr(0, dot), table->substr(dot + 1));
        });
    table = asked ? std::next(table) : tables->erase(table);
  }
  return true;
}

}  // namespace

void CallWitness(const std::string& server, const std::string& feed, Witness witness) {
  Witnesses()[{server, feed}] = std::move(witness);
}

Witness WitnessOf(const std::string& server, const std::string& feed) {
  const auto found = Witnesses().find({server, feed});
  return found == Witnesses().end() ? nullptr : found->second;
}

absl::Status CheckWitnessed(const RecordedStream& stream, Testimony testimony,
                            const std::string& after, const std::string& upto) {
  const auto begin = Position::FromText(after);
  if (!begin.ok()) return begin.status();
  const auto end = Position::FromText(upto);
  if (!end.ok()) return end.status();
  if (begin->generation() != kFirstGeneration || stream.segments().empty() ||
      !KeepAskedFor(stream.segments().front().request.filter(), &testimony.tables)) {
    return absl::OkStatus();
  }
  auto seen = SeenTransactions(stream);
  if (!seen.ok()) return seen.status();
  // A break cuts off what was not seen before it.
  uint64_t last = end->generation() == kFirstGeneration ? end->engine_low() : 0;
  for (const RecordedTransaction& transaction : *seen) {
    const auto position = Position::FromText(transaction.position);
    if (!position.ok()) return position.status();
    const bool first_generation = position->generation() == kFirstGeneration;
    if (first_generation) last = std::max(last, position->engine_low());
    if (first_generation && position->ordinal() == 0) continue;
    for (const RecordedChange& change : transaction.changes) testimony.tables.erase(change.table);
  }
  std::vector<RecordedTransaction> of_source;
  for (RecordedTransaction& transaction : *seen) {
    // What a bootstrap sends of the log lies before its boundary.
    if (*Position::FromText(transaction.position) <= *begin) continue;
    auto& changes = transaction.changes;
    std::erase_if(changes, [&](const RecordedChange& change) {
      return testimony.tables.count(change.table) == 0;
    });
    if (!changes.empty()) of_source.push_back(std::move(transaction));
  }
  auto expected = OnlyTables(std::move(testimony.transactions), testimony.tables);
  std::erase_if(expected, [&](const OracleTransaction& transaction) {
    return transaction.end_lsn <= begin->engine_low() || transaction.end_lsn > last;
  });
  return CompareWithOracle(of_source, expected);
}

}  // namespace tidemark::testing
