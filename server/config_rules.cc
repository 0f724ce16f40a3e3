#include "server/config_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "capture/postgres/lsn.h"
#include "proto/timestamps.h"
#include "server/config_engine_rules.h"
#include "server/limits.h"
#include "server/recovery.h"
#include "server/stop_order.h"

namespace tidemark {
namespace {

constexpr uint32_t kPortMax = 65'535;
const std::vector<std::string> kLogLevels = {"trace", "debug", "info", "warn", "error"};
const std::vector<std::string> kLogFormats = {"text", "json"};

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

// In the order of FeedConfig.
std::vector<std::string> EnginesOf(const v1::FeedConfig& feed) {
  std::vector<std::string> engines;
  if (feed.has_postgres()) engines.push_back("postgres");
  if (feed.has_poll()) engines.push_back("poll");
  if (feed.has_changelog()) engines.push_back("changelog");
  return engines;
}

void CheckRetention(const std::string& path, const v1::RetentionConfig& retention,
                    BrokenRules* broken) {
  if (retention.has_age() && FromDuration(retention.age()) <= absl::ZeroDuration()) {
    broken->Fail(path + ".age", "more than 0");
  }
  if (retention.has_bytes() && retention.bytes().bytes() == 0) {
    broken->Fail(path + ".bytes", "more than 0");
  }
}

void CheckListening(const v1::Config& config, BrokenRules* broken) {
  if (!IsListenAddress(config.listen())) {
    broken->Fail("listen", "expects HOST:PORT, [V6]:PORT or unix:PATH");
  }
  if (!config.metrics_listen().empty() && !IsListenAddress(config.metrics_listen())) {
    broken->Fail("metrics_listen", "expects HOST:PORT or [V6]:PORT");
  }
  if (config.has_tls()) {
    broken->Require("tls.certificate_file", config.tls().certificate_file());
    broken->Require("tls.key_file", config.tls().key_file());
  } else if (!config.insecure() && !IsLoopbackAddress(config.listen())) {
    broken->Fail("listen",
                 "not a loopback address, and tls is not set: changes would travel in clear text; "
                 "set tls, or insecure: true");
  }
}

void CheckServer(const v1::Config& config, BrokenRules* broken) {
  CheckListening(config, broken);
  if (FromDuration(config.drain_timeout()) > absl::Milliseconds(limits::drain_timeout_max_ms)) {
    broken->Fail("drain_timeout", "at most 10m");
  }
  broken->CheckPeriod("client_stall_timeout", config.client_stall_timeout(),
                      absl::Milliseconds(limits::client_stall_min_ms),
                      absl::Milliseconds(limits::client_stall_max_ms));
  broken->Require("store.path", config.store().path());
  CheckRetention("store.retention", config.store().retention(), broken);
  broken->CheckWord("log.level", config.log().level(), kLogLevels);
  broken->CheckWord("log.format", config.log().format(), kLogFormats);
}

// Where the source proves its end, and how its positions are written.
std::string StopComplaint(const v1::FeedConfig& feed, const StopOrder& order) {
  if (order.kind == StopOrder::Kind::kNever) return "";
  if (feed.has_changelog()) return ChangelogStopComplaint(feed.changelog(), order);
  if (order.kind != StopOrder::Kind::kNative) return "";
  if (feed.has_poll()) return PollStopComplaint(order);
  const auto lsn = capture::postgres::ParseLsn(order.native);
  return !feed.has_postgres() || lsn.ok() ? "" : std::string(lsn.status().message());
}

void CheckStopAt(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken) {
  const auto order = ParseStopOrder(feed.stop_at());
  if (!order.ok()) {
    broken->Fail(path, "expects never, now, a time as 2026-03-01T12:00:00Z, or a position");
    return;
  }
  if (std::string complaint = StopComplaint(feed, *order); !complaint.empty()) {
    broken->Fail(path, std::move(complaint));
  }
}

void CheckEngines(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken) {
  const std::vector<std::string> engines = EnginesOf(feed);
  if (engines.empty()) broken->Fail(path, "expects one engine: postgres, poll or changelog");
  if (engines.size() > 1 && feed.has_changelog()) {
    broken->Fail(path + ".changelog",
                 fmt::format("given beside {}; a feed has one engine, or poll and postgres when it "
                             "is to be moved from one to the other",
                             engines.front()));
  }
  if (feed.has_postgres()) CheckPostgres(path, feed, broken);
  if (feed.has_poll()) CheckPoll(path, feed, broken);
  if (feed.has_changelog()) CheckChangelog(path, feed, broken);
}

void CheckFeed(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken) {
  if (!IsFeedName(feed.name())) {
    broken->Fail(path + ".name", "expects 1 to 63 of a-z, 0-9, _ and -, a letter first");
  } else {
    broken->CheckUnique("name", path + ".name", feed.name());
  }
  CheckRetention(path + ".retention", feed.retention(), broken);
  broken->CheckTables(path + ".rows_off", feed.rows_off());
  broken->CheckTables(path + ".before_images", feed.before_images());
  if (!feed.before_images().empty() && feed.has_rows() && !feed.rows()) {
    broken->Fail(path + ".before_images",
                 "needs the current rows of its tables, and rows is false");
  }
  CheckStopAt(path + ".stop_at", feed, broken);
  const auto& words = RecoveryWords();
  if (!feed.recovery().empty() &&
      std::find(words.begin(), words.end(), feed.recovery()) == words.end()) {
    broken->Fail(path + ".recovery", "expects stop, resnapshot or gap_and_continue");
  }
  CheckEngines(path, feed, broken);
}

void CheckFeeds(const v1::Config& config, BrokenRules* broken) {
  if (config.feeds().empty()) broken->Fail("feeds", "expects at least one feed");
  if (static_cast<size_t>(config.feeds_size()) > limits::feeds_max) {
    broken->Fail("feeds", fmt::format("at most {} feeds", limits::feeds_max));
  }
  for (int i = 0; i < config.feeds_size(); ++i) {
    CheckFeed(fmt::format("feeds[{}]", i), config.feeds(i), broken);
  }
  CheckTrimming(config, broken);
}

}  // namespace

bool IsFeedName(std::string_view name) {
  return !name.empty() && name.size() <= limits::feed_name_bytes_max && name[0] >= 'a' &&
         name[0] <= 'z' && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

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
    if (feed.has_poll()) FillPoll(feed.mutable_poll());
    if (feed.has_changelog()) FillChangelog(feed.mutable_changelog());
    if (feed.has_postgres()) FillPostgres(&feed);
  }
}

std::vector<ConfigError> CheckConfigRules(const v1::Config& config, const ConfigPlaces& places) {
  BrokenRules broken(places);
  CheckServer(config, &broken);
  CheckFeeds(config, &broken);
  return broken.Take();
}

}  // namespace tidemark
