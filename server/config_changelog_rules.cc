#include <fmt/format.h>

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proto/timestamps.h"
#include "server/config_engine_rules.h"
#include "server/config_value.h"

namespace tidemark {
namespace {

constexpr char kTableDefault[] = "tidemark.changelog";
constexpr int64_t kIntervalDefaultMs = 500;
constexpr int64_t kIntervalMinMs = 10;
constexpr int64_t kIntervalMaxMs = 3'600'000;
constexpr uint32_t kPageRowsDefault = 1'000;
constexpr uint32_t kPageRowsMax = 10'000;
const std::vector<std::string> kStrategyWords = {"snapshot", "xid_watermark"};

// A column that is not named has the name of the field; whether it was named, the source wants to
// know.
void CheckColumns(const std::string& path, const v1::ChangelogColumns& columns,
                  BrokenRules* broken) {
  std::map<std::string, std::string> taken;
  const auto& fields = *v1::ChangelogColumns::descriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    const std::string& field = fields.field(i)->name();
    const std::string named = columns.GetReflection()->GetString(columns, fields.field(i));
    const auto [other, is_new] = taken.emplace(named.empty() ? field : named, field);
    if (is_new) continue;
    broken->Fail(path + "." + field,
                 fmt::format("the column {} is that of {} already", other->first, other->second));
  }
}

// As the source writes its positions: transaction 17.
constexpr std::string_view kTransactionWord = "transaction ";

// Which table of which database, as far as texts tell.
std::string PlaceOf(const v1::ChangelogConfig& changelog) {
  const v1::PostgresLogin& login = changelog.postgres();
  return fmt::format("{}:{}/{}/{}", login.host(), login.port(), login.database(),
                     changelog.table());
}

}  // namespace

void FillChangelog(v1::ChangelogConfig* changelog) {
  if (changelog->has_postgres()) FillLogin(changelog->mutable_postgres());
  if (changelog->table().empty()) changelog->set_table(kTableDefault);
  if (changelog->strategy().empty()) changelog->set_strategy(kStrategyWords.front());
  if (!changelog->has_interval()) {
    *changelog->mutable_interval() = ToDuration(absl::Milliseconds(kIntervalDefaultMs));
  }
  if (changelog->page_rows() == 0) changelog->set_page_rows(kPageRowsDefault);
}

void CheckChangelog(const std::string& feed_path, const v1::FeedConfig& feed, BrokenRules* broken) {
  const std::string path = feed_path + ".changelog";
  const v1::ChangelogConfig& changelog = feed.changelog();
  if (changelog.has_postgres()) {
    CheckLogin(path + ".postgres", changelog.postgres(), broken);
  } else {
    broken->Fail(path, "expects one engine: postgres");
  }
  broken->CheckTable(path + ".table", changelog.table());
  broken->CheckWord(path + ".strategy", changelog.strategy(), kStrategyWords);
  broken->CheckPeriod(path + ".interval", changelog.interval(), absl::Milliseconds(kIntervalMinMs),
                      absl::Milliseconds(kIntervalMaxMs));
  broken->CheckCount(path + ".page_rows", changelog.page_rows(), kPageRowsMax);
  CheckColumns(path + ".columns", changelog.columns(), broken);
}

std::string ChangelogStopComplaint(const v1::ChangelogConfig& changelog, const StopOrder& order) {
  constexpr std::string_view kExpects = "expects never, now, or the number of a transaction";
  if (changelog.strategy() == kStrategyWords.back()) {
    return "strategy xid_watermark has no proved end: what is committed may wait for any older "
           "transaction";
  }
  if (order.kind == StopOrder::Kind::kTime) {
    return fmt::format("a changelog does not say when its transactions were committed: {}",
                       kExpects);
  }
  if (order.kind != StopOrder::Kind::kNative) return "";
  std::string_view number = order.native;
  if (number.substr(0, kTransactionWord.size()) == kTransactionWord) {
    number.remove_prefix(kTransactionWord.size());
  }
  const bool is_number = ParseUnsigned(number, std::numeric_limits<uint64_t>::max()).ok();
  return is_number ? "" : std::string(kExpects);
}

void CheckTrimming(const v1::Config& config, BrokenRules* broken) {
  std::map<std::string, std::vector<int>> readers;
  for (int i = 0; i < config.feeds_size(); ++i) {
    if (config.feeds(i).has_changelog()) {
      readers[PlaceOf(config.feeds(i).changelog())].push_back(i);
    }
  }
  for (const auto& [place, feeds] : readers) {
    for (const int trimming : feeds) {
      if (feeds.size() < 2 || !config.feeds(trimming).changelog().trim()) continue;
      const int other = feeds[0] == trimming ? feeds[1] : feeds[0];
      broken->Fail(
          fmt::format("feeds[{}].changelog.trim", trimming),
          fmt::format("the feed on line {} reads the same changelog, and may not have read yet "
                      "what would be deleted",
                      broken->LineOf(fmt::format("feeds[{}]", other))));
    }
  }
}

}  // namespace tidemark
