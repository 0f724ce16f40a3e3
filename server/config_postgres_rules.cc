#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/config_engine_rules.h"
#include "server/config_rules.h"

namespace tidemark {
namespace {

// NAMEDATALEN - 1: PostgreSQL cuts longer names in silence.
constexpr size_t kPostgresNameBytesMax = 63;
constexpr int64_t kCatalogPeriodDefaultS = 5;
constexpr int64_t kCatalogPeriodMinS = 1;
constexpr int64_t kCatalogPeriodMaxS = 3'600;

// abc_1: what PostgreSQL accepts as the name of a slot.
bool IsSlotName(std::string_view name) {
  return !name.empty() && name.size() <= kPostgresNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

// Of the slot and of the publication.
std::string DefaultObjectName(const std::string& feed) {
  return "tidemark_" + absl::StrReplaceAll(feed, {{"-", "_"}});
}

void CheckObjects(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken) {
  const v1::PostgresConfig& postgres = feed.postgres();
  if (!IsSlotName(postgres.slot())) {
    // Not where the name of the feed, of which it is made, was refused already.
    const bool made = postgres.slot() == DefaultObjectName(feed.name());
    if (!made || IsFeedName(feed.name())) {
      broken->Fail(path + ".slot", "expects 1 to 63 of a-z, 0-9 and _");
    }
  } else {
    broken->CheckUnique("slot", path + ".slot", postgres.slot());
  }
  if (postgres.publication().size() > kPostgresNameBytesMax) {
    broken->Fail(path + ".publication", "at most 63 bytes");
  } else {
    broken->CheckUnique("publication", path + ".publication", postgres.publication());
  }
}

// What is polled today has to be captured when the feed is moved to the log.
void CheckPolledTables(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken) {
  for (const v1::PolledTable& polled : feed.poll().tables()) {
    const auto table = TablePattern::Parse(polled.table());
    if (!table.ok() || !table->exact()) continue;
    const auto& texts = feed.postgres().tables();
    const bool named = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      const auto pattern = TablePattern::Parse(text);
      return !pattern.ok() || pattern->Matches(table->schema(), table->table());
    });
    if (named) continue;
    broken->Fail(path + ".tables", absl::StrCat(polled.table(),
                                                " is polled and not among them: the feed would "
                                                "lose it when it is moved to the log"));
  }
}

}  // namespace

void FillPostgres(v1::FeedConfig* feed) {
  v1::PostgresConfig* const postgres = feed->mutable_postgres();
  const std::string name = DefaultObjectName(feed->name());
  FillLogin(postgres);
  if (postgres->slot().empty()) postgres->set_slot(name);
  if (postgres->publication().empty()) postgres->set_publication(name);
  // A feed that is moved from poll to log goes on with the tables that it has.
  if (postgres->tables().empty() && feed->has_poll()) {
    for (const v1::PolledTable& table : feed->poll().tables()) {
      if (!table.table().empty()) postgres->add_tables(table.table());
    }
  }
  if (postgres->tables().empty()) postgres->add_tables("public.*");
  if (!postgres->has_catalog_period()) {
    postgres->mutable_catalog_period()->set_seconds(kCatalogPeriodDefaultS);
  }
}

void CheckPostgres(const std::string& feed_path, const v1::FeedConfig& feed, BrokenRules* broken) {
  const std::string path = feed_path + ".postgres";
  CheckLogin(path, feed.postgres(), broken);
  broken->CheckTables(path + ".tables", feed.postgres().tables());
  CheckPolledTables(path, feed, broken);
  CheckObjects(path, feed, broken);
  broken->CheckPeriod(path + ".catalog_period", feed.postgres().catalog_period(),
                      absl::Seconds(kCatalogPeriodMinS), absl::Seconds(kCatalogPeriodMaxS));
}

}  // namespace tidemark
