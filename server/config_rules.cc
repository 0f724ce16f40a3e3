#include "server/config_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "capture/postgres/lsn.h"
#include "proto/table_name.h"
#include "server/limits.h"
#include "server/recovery.h"
#include "server/stop_order.h"
#include "server/timestamps.h"

namespace tidemark {
namespace {

// NAMEDATALEN - 1: PostgreSQL cuts longer names in silence.
constexpr size_t kPostgresNameBytesMax = 63;
constexpr uint32_t kPortMax = 65'535;
constexpr uint32_t kPostgresPortDefault = 5'432;
constexpr int64_t kSilenceTimeoutDefaultS = 30;
constexpr int64_t kSilenceTimeoutMinS = 1;
constexpr int64_t kCatalogPeriodDefaultS = 5;
constexpr int64_t kCatalogPeriodMinS = 1;
constexpr int64_t kCatalogPeriodMaxS = 3'600;
const std::vector<std::string> kSslModes = {"disable", "prefer", "require", "verify-ca",
                                            "verify-full"};
const std::vector<std::string> kLogLevels = {"trace", "debug", "info", "warn", "error"};
const std::vector<std::string> kLogFormats = {"text", "json"};

// abc_1: what PostgreSQL accepts as the name of a slot.
bool IsSlotName(std::string_view name) {
  return !name.empty() && name.size() <= kPostgresNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

bool IsFeedName(std::string_view name) {
  return !name.empty() && name.size() <= limits::feed_name_bytes_max && name[0] >= 'a' &&
         name[0] <= 'z' && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

// HOST:PORT, [V6]:PORT or unix:PATH.
bool IsListenAddress(std::string_view address) {
  if (absl::StartsWith({address.data(), address.size()}, "unix:")) return address.size() > 5;
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5) return false;
  uint32_t number = 0;
  for (const char c : port) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  const std::string_view host = address.substr(0, colon);
  return number <= kPortMax &&
         (host.front() == '[' ? host.back() == ']' : host.find(':') == std::string_view::npos);
}

void FillRetention(const v1::RetentionConfig& from, v1::RetentionConfig* retention) {
  if (!retention->has_age()) *retention->mutable_age() = from.age();
  if (!retention->has_bytes()) *retention->mutable_bytes() = from.bytes();
}

// Of the slot and of the publication.
std::string DefaultObjectName(const std::string& feed) {
  return "tidemark_" + absl::StrReplaceAll(feed, {{"-", "_"}});
}

void FillPostgres(const std::string& feed, v1::PostgresConfig* postgres) {
  const std::string name = DefaultObjectName(feed);
  if (postgres->port() == 0) postgres->set_port(kPostgresPortDefault);
  if (postgres->slot().empty()) postgres->set_slot(name);
  if (postgres->publication().empty()) postgres->set_publication(name);
  if (postgres->tables().empty()) postgres->add_tables("public.*");
  if (!postgres->has_silence_timeout()) {
    postgres->mutable_silence_timeout()->set_seconds(kSilenceTimeoutDefaultS);
  }
  if (!postgres->has_catalog_period()) {
    postgres->mutable_catalog_period()->set_seconds(kCatalogPeriodDefaultS);
  }
  if (postgres->sslmode().empty()) {
    const bool local =
        absl::StartsWith(postgres->host(), "/") || IsLoopbackAddress(postgres->host());
    postgres->set_sslmode(local ? "prefer" : "verify-full");
  }
}

class RuleChecker {
 public:
  explicit RuleChecker(const ConfigPlaces& places) : places_(places) {}

  void CheckServer(const v1::Config& config) {
    if (!IsListenAddress(config.listen())) {
      Fail("listen", "expects HOST:PORT, [V6]:PORT or unix:PATH");
    }
    if (!config.metrics_listen().empty() && !IsListenAddress(config.metrics_listen())) {
      Fail("metrics_listen", "expects HOST:PORT or [V6]:PORT");
    }
    if (config.has_tls()) {
      Require("tls.certificate_file", config.tls().certificate_file());
      Require("tls.key_file", config.tls().key_file());
    } else if (!config.insecure() && !IsLoopbackAddress(config.listen())) {
      Fail("listen",
           "not a loopback address, and tls is not set: changes would travel in clear text; set "
           "tls, or insecure: true");
    }
    if (FromDuration(config.drain_timeout()) > absl::Milliseconds(limits::drain_timeout_max_ms)) {
      Fail("drain_timeout", "at most 10m");
    }
    const absl::Duration stall = FromDuration(config.client_stall_timeout());
    if (stall < absl::Milliseconds(limits::client_stall_min_ms) ||
        stall > absl::Milliseconds(limits::client_stall_max_ms)) {
      Fail("client_stall_timeout", "expects 1s to 24h");
    }
    Require("store.path", config.store().path());
    CheckRetention("store.retention", config.store().retention());
    CheckWord("log.level", config.log().level(), kLogLevels);
    CheckWord("log.format", config.log().format(), kLogFormats);
  }

  void CheckFeeds(const v1::Config& config) {
    if (config.feeds().empty()) Fail("feeds", "expects at least one feed");
    if (static_cast<size_t>(config.feeds_size()) > limits::feeds_max) {
      Fail("feeds", fmt::format("at most {} feeds", limits::feeds_max));
    }
    for (int i = 0; i < config.feeds_size(); ++i) {
      CheckFeed(fmt::format("feeds[{}]", i), config.feeds(i));
    }
  }

  std::vector<ConfigError> TakeErrors() { return std::move(errors_); }

 private:
  void CheckFeed(const std::string& path, const v1::FeedConfig& feed) {
    if (!IsFeedName(feed.name())) {
      Fail(path + ".name", "expects 1 to 63 of a-z, 0-9, _ and -, a letter first");
    } else {
      CheckUnique(&names_, path + ".name", "name", feed.name());
    }
    CheckRetention(path + ".retention", feed.retention());
    CheckTables(path + ".rows_off", feed.rows_off());
    CheckTables(path + ".before_images", feed.before_images());
    if (!feed.before_images().empty() && feed.has_rows() && !feed.rows()) {
      Fail(path + ".before_images", "needs the current rows of its tables, and rows is false");
    }
    CheckStopAt(path + ".stop_at", feed);
    const auto& words = RecoveryWords();
    if (!feed.recovery().empty() &&
        std::find(words.begin(), words.end(), feed.recovery()) == words.end()) {
      Fail(path + ".recovery", "expects stop, resnapshot or gap_and_continue");
    }
    if (feed.has_postgres()) {
      CheckPostgres(path + ".postgres", feed);
    } else {
      Fail(path, "expects one engine: postgres");
    }
  }

  void CheckPostgres(const std::string& path, const v1::FeedConfig& feed) {
    const v1::PostgresConfig& postgres = feed.postgres();
    Require(path + ".host", postgres.host());
    Require(path + ".database", postgres.database());
    Require(path + ".user", postgres.user());
    if (postgres.port() > kPortMax) Fail(path + ".port", "expects 1 to 65535");
    if (!postgres.password().empty() && !postgres.password_file().empty()) {
      Fail(path + ".password_file", "given beside password; at most one of the two");
    }
    CheckWord(path + ".sslmode", postgres.sslmode(), kSslModes);
    CheckTables(path + ".tables", postgres.tables());
    if (!IsSlotName(postgres.slot())) {
      // Not where the name of the feed, of which it is made, was refused already.
      const bool made = postgres.slot() == DefaultObjectName(feed.name());
      if (!made || IsFeedName(feed.name())) {
        Fail(path + ".slot", "expects 1 to 63 of a-z, 0-9 and _");
      }
    } else {
      CheckUnique(&slots_, path + ".slot", "slot", postgres.slot());
    }
    if (postgres.publication().size() > kPostgresNameBytesMax) {
      Fail(path + ".publication", "at most 63 bytes");
    } else {
      CheckUnique(&publications_, path + ".publication", "publication", postgres.publication());
    }
    if (FromDuration(postgres.silence_timeout()) < absl::Seconds(kSilenceTimeoutMinS)) {
      Fail(path + ".silence_timeout", "at least 1s");
    }
    const absl::Duration catalog_period = FromDuration(postgres.catalog_period());
    if (catalog_period < absl::Seconds(kCatalogPeriodMinS) ||
        catalog_period > absl::Seconds(kCatalogPeriodMaxS)) {
      Fail(path + ".catalog_period", "expects 1s to 1h");
    }
  }

  void CheckStopAt(const std::string& path, const v1::FeedConfig& feed) {
    const auto order = ParseStopOrder(feed.stop_at());
    if (!order.ok()) {
      Fail(path, "expects never, now, a time as 2026-03-01T12:00:00Z, or a position");
    } else if (order->kind == StopOrder::Kind::kNative && feed.has_postgres()) {
      const auto lsn = capture::postgres::ParseLsn(order->native);
      if (!lsn.ok()) Fail(path, std::string(lsn.status().message()));
    }
  }

  template <typename Patterns>
  void CheckTables(const std::string& path, const Patterns& patterns) {
    for (int i = 0; i < patterns.size(); ++i) {
      if (const auto parsed = TablePattern::Parse(patterns[i]); !parsed.ok()) {
        Fail(fmt::format("{}[{}]", path, i), std::string(parsed.status().message()));
      }
    }
  }

  void CheckRetention(const std::string& path, const v1::RetentionConfig& retention) {
    if (retention.has_age() && FromDuration(retention.age()) <= absl::ZeroDuration()) {
      Fail(path + ".age", "more than 0");
    }
    if (retention.has_bytes() && retention.bytes().bytes() == 0) {
      Fail(path + ".bytes", "more than 0");
    }
  }

  void CheckWord(const std::string& path, const std::string& word,
                 const std::vector<std::string>& words) {
    if (std::find(words.begin(), words.end(), word) != words.end()) return;
    Fail(path, fmt::format("unknown word \"{}\"{}", word, Suggestion(word, words)));
  }

  void CheckUnique(std::map<std::string, std::string>* taken, const std::string& path,
                   std::string_view what, const std::string& value) {
    const auto [other, is_new] = taken->emplace(value, path);
    if (is_new) return;
    const int line = places_.Find(other->second).line;
    Fail(path, fmt::format("the {} {} is that of the feed on line {}; two feeds cannot share one",
                           what, value, line));
  }

  void Require(const std::string& path, const std::string& value) {
    if (value.empty()) Fail(path, "missing");
  }

  void Fail(const std::string& path, std::string message) {
    errors_.push_back({places_.Find(path), path, std::move(message)});
  }

  const ConfigPlaces& places_;
  std::vector<ConfigError> errors_;
  // The path at which each value was taken first.
  std::map<std::string, std::string> names_;
  std::map<std::string, std::string> slots_;
  std::map<std::string, std::string> publications_;
};

}  // namespace

bool IsLoopbackAddress(std::string_view address) {
  if (address.substr(0, 5) == "unix:") return true;
  if (address == "::1" || address.substr(0, 5) == "[::1]") return true;
  const std::string_view host = address.substr(0, address.find(':'));
  if (host == "localhost") return true;
  // Digits and dots only: 127.evil.example is a name.
  return host.substr(0, 4) == "127." &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

void FillConfigDefaults(v1::Config* config) {
  if (config->listen().empty()) config->set_listen("127.0.0.1:7654");
  if (!config->has_drain_timeout()) {
    *config->mutable_drain_timeout() =
        ToDuration(absl::Milliseconds(limits::drain_timeout_default_ms));
  }
  if (!config->has_client_stall_timeout()) {
    *config->mutable_client_stall_timeout() =
        ToDuration(absl::Milliseconds(limits::client_stall_default_ms));
  }
  if (config->log().level().empty()) config->mutable_log()->set_level("info");
  if (config->log().format().empty()) config->mutable_log()->set_format("text");
  v1::StoreConfig* store = config->mutable_store();
  v1::RetentionConfig defaults;
  defaults.mutable_age()->set_seconds(limits::retention_age_default_s);
  defaults.mutable_bytes()->set_bytes(limits::retention_bytes_default);
  FillRetention(defaults, store->mutable_retention());
  while (store->path().size() > 1 && store->path().back() == '/') store->mutable_path()->pop_back();
  if (store->cursor_keys_file().empty() && !store->path().empty()) {
    store->set_cursor_keys_file(store->path() + ".cursor_keys");
  }
  for (auto& feed : *config->mutable_feeds()) {
    FillRetention(store->retention(), feed.mutable_retention());
    if (!feed.has_rows()) feed.set_rows(true);
    if (feed.has_postgres()) FillPostgres(feed.name(), feed.mutable_postgres());
  }
}

std::vector<ConfigError> CheckConfigRules(const v1::Config& config, const ConfigPlaces& places) {
  RuleChecker checker(places);
  checker.CheckServer(config);
  checker.CheckFeeds(config);
  return checker.TakeErrors();
}

}  // namespace tidemark
