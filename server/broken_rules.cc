#include "server/broken_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "proto/timestamps.h"

namespace tidemark {
namespace {

// As it is written in the file: 100ms, 1h.
std::string PeriodText(absl::Duration period) {
  static constexpr std::pair<const char*, int64_t> units[] = {
      {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}};
  const int64_t milliseconds = absl::ToInt64Milliseconds(period);
  const auto unit = std::find_if(std::begin(units), std::end(units), [&](const auto& each) {
    return milliseconds > 0 && milliseconds % each.second == 0;
  });
  if (unit == std::end(units)) return fmt::format("{}ms", milliseconds);
  return fmt::format("{}{}", milliseconds / unit->second, unit->first);
}

}  // namespace

void BrokenRules::Fail(const std::string& path, std::string message) {
  errors_.push_back({places_.Find(path), path, std::move(message)});
}

void BrokenRules::Require(const std::string& path, const std::string& value) {
  if (value.empty()) Fail(path, "missing");
}

void BrokenRules::CheckWord(const std::string& path, const std::string& word,
                            const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), word) != words.end()) return;
  Fail(path, fmt::format("unknown word \"{}\"{}", word, Suggestion(word, words)));
}

void BrokenRules::CheckPeriod(const std::string& path, const google::protobuf::Duration& period,
                              absl::Duration min, absl::Duration max) {
  const absl::Duration given = FromDuration(period);
  if (given >= min && given <= max) return;
  Fail(path, max == absl::InfiniteDuration()
                 ? fmt::format("at least {}", PeriodText(min))
                 : fmt::format("expects {} to {}", PeriodText(min), PeriodText(max)));
}

void BrokenRules::CheckCount(const std::string& path, uint64_t count, uint64_t max) {
  if (count > max) Fail(path, fmt::format("expects 1 to {}", max));
}

void BrokenRules::CheckUnique(const std::string& what, const std::string& path,
                              const std::string& value) {
  const auto [other, is_new] = taken_.emplace(std::pair(what, value), path);
  if (is_new) return;
  Fail(path, fmt::format("the {} {} is that of the feed on line {}; two feeds cannot share one",
                         what, value, LineOf(other->second)));
}

std::optional<std::string> BrokenRules::CheckTable(const std::string& path,
                                                   const std::string& table) {
  if (table.empty()) {
    Fail(path, "missing");
    return std::nullopt;
  }
  const auto parsed = TablePattern::Parse(table);
  if (!parsed.ok()) {
    Fail(path, std::string(parsed.status().message()));
    return std::nullopt;
  }
  if (!parsed->exact()) {
    Fail(path, "expects one table, schema.table; patterns with * and ? are not accepted here");
    return std::nullopt;
  }
  return TableNameText(parsed->schema(), parsed->table());
}

}  // namespace tidemark
