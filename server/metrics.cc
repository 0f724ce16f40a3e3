#include "server/metrics.h"

#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "proto/timestamps.h"

namespace tidemark {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric Sample(MetricType type, double value, std::vector<ClientMetric::Label> labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return metric;
}

MetricFamily Family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

MetricFamily OfServer(const char* name, const char* help, double value) {
  MetricFamily family = Family(name, help, MetricType::Gauge);
  family.metric.push_back(Sample(MetricType::Gauge, value, {}));
  return family;
}

struct FeedMetric {
  const char* name;
  const char* help;
  MetricType type;
  std::function<double(const v1::FeedStatus&)> value;
  // False: the feed has no such fact.
  std::function<bool(const v1::FeedStatus&)> has = [](const v1::FeedStatus&) { return true; };
};

double Seconds(const google::protobuf::Duration& duration) {
  return absl::ToDoubleSeconds(FromDuration(duration));
}

double TablesIn(const v1::FeedStatus& feed, v1::TableFollowState state) {
  return static_cast<double>(
      std::count_if(feed.tables().begin(), feed.tables().end(),
                    [state](const v1::TableStatus& table) { return table.state() == state; }));
}

const std::vector<FeedMetric>& FeedMetrics() {
  const auto has_slot = [](const v1::FeedStatus& feed) { return feed.has_slot(); };
  const auto has_tables = [](const v1::FeedStatus& feed) { return feed.tables_size() > 0; };
  static const std::vector<FeedMetric> metrics = {
      {"tidemark_feed_failed", "1: capture was stopped by an error that needs a person.",
       MetricType::Gauge,
       [](const auto& feed) { return feed.source_state() == v1::SOURCE_STATE_FAILED; }},
      {"tidemark_feed_streaming", "1: the source is connected and read.", MetricType::Gauge,
       [](const auto& feed) { return feed.source_state() == v1::SOURCE_STATE_STREAMING; }},
      {"tidemark_feed_transactions_captured_total", "Transactions appended since the start.",
       MetricType::Counter, [](const auto& feed) { return feed.transactions_captured(); }},
      {"tidemark_feed_changes_captured_total", "Changes appended since the start.",
       MetricType::Counter, [](const auto& feed) { return feed.changes_captured(); }},
      {"tidemark_feed_lag_bytes", "Bytes of the source's log that are not captured yet.",
       MetricType::Gauge, [](const auto& feed) { return feed.lag().bytes(); }},
      {"tidemark_feed_lag_seconds", "Age of the newest commit seen while something is outstanding.",
       MetricType::Gauge, [](const auto& feed) { return Seconds(feed.lag().time()); }},
      {"tidemark_feed_log_bytes", "Bytes of the stored log.", MetricType::Gauge,
       [](const auto& feed) { return feed.log_bytes(); }},
      {"tidemark_feed_log_transactions", "Transactions in the stored log.", MetricType::Gauge,
       [](const auto& feed) { return feed.log_transactions(); }},
      {"tidemark_feed_streams", "Open streams.", MetricType::Gauge,
       [](const auto& feed) { return feed.streams(); }},
      {"tidemark_feed_table_problems", "Tables that need a person while the others go on.",
       MetricType::Gauge, [](const auto& feed) { return feed.table_problems_size(); }},
      {"tidemark_feed_generation", "Generation of the feed's positions.", MetricType::Gauge,
       [](const auto& feed) { return feed.generation(); }},
      {"tidemark_feed_gaps", "Places in the feed behind which changes may be missing.",
       MetricType::Gauge, [](const auto& feed) { return feed.gaps(); }},
      {"tidemark_feed_slot_retained_bytes", "WAL that the source keeps for the feed's slot.",
       MetricType::Gauge, [](const auto& feed) { return feed.slot().retained_bytes(); }, has_slot},
      {"tidemark_feed_slot_headroom_bytes",
       "WAL that may still be retained before the source gives the slot up.", MetricType::Gauge,
       [](const auto& feed) { return feed.slot().headroom_bytes(); },
       [](const auto& feed) { return feed.slot().has_headroom_bytes(); }},
      {"tidemark_feed_slot_headroom_seconds",
       "How long that lasts, at the rate at which the source's log grew lately.", MetricType::Gauge,
       [](const auto& feed) { return Seconds(feed.slot().headroom_time()); },
       [](const auto& feed) { return feed.slot().has_headroom_time(); }},
      {"tidemark_feed_slot_seen_timestamp_seconds",
       "When all this of the slot was so, in seconds since 1970.", MetricType::Gauge,
       [](const auto& feed) { return feed.slot().seen().seconds(); },
       [](const auto& feed) { return feed.slot().has_seen(); }},
      {"tidemark_feed_snapshot_rows", "Rows of the initial snapshot that were read.",
       MetricType::Gauge, [](const auto& feed) { return feed.snapshot().rows_done(); },
       [](const auto& feed) { return feed.has_snapshot(); }},
      {"tidemark_feed_tables_failed", "Tables that are not captured, or not known to be whole.",
       MetricType::Gauge,
       [](const auto& feed) { return TablesIn(feed, v1::TABLE_FOLLOW_STATE_FAILED); }, has_tables},
      {"tidemark_feed_tables_reading", "Tables that are being read beside the stream.",
       MetricType::Gauge,
       [](const auto& feed) { return TablesIn(feed, v1::TABLE_FOLLOW_STATE_READING); }, has_tables},
  };
  return metrics;
}

template <class Figure>
double SumOverPolled(const v1::FeedStatus& feed, const Figure& figure) {
  double sum = 0;
  for (const v1::PolledTableStatus& table : feed.poll().tables()) {
    sum += static_cast<double>(figure(table));
  }
  return sum;
}

// Of feeds that are polled.
const std::vector<FeedMetric>& PollMetrics() {
  const auto polled = [](const v1::FeedStatus& feed) { return feed.has_poll(); };
  static const std::vector<FeedMetric> metrics = {
      {"tidemark_feed_polls_total", "Polls that ended.", MetricType::Counter,
       [](const auto& feed) { return feed.poll().polls(); }, polled},
      {"tidemark_feed_poll_seconds", "How long the last poll took.", MetricType::Gauge,
       [](const auto& feed) { return Seconds(feed.poll().last_took()); }, polled},
      {"tidemark_feed_poll_rows", "Rows that the last poll read.", MetricType::Gauge,
       [](const auto& feed) { return feed.poll().last_rows_read(); }, polled},
      {"tidemark_feed_poll_overlap_seconds", "What every poll reads again.", MetricType::Gauge,
       [](const auto& feed) { return Seconds(feed.poll().overlap()); }, polled},
      {"tidemark_feed_poll_overlap_needed_seconds",
       "What had to be read again at the last poll to see every open writer.", MetricType::Gauge,
       [](const auto& feed) { return Seconds(feed.poll().overlap_needed()); },
       [](const auto& feed) { return feed.poll().has_overlap_needed(); }},
      {"tidemark_feed_late_rows_total", "Rows that came below a bound that was passed.",
       MetricType::Counter,
       [](const auto& feed) {
         return SumOverPolled(feed, [](const auto& table) { return table.late_rows(); });
       },
       polled},
      {"tidemark_feed_null_cursors", "Rows without a cursor.", MetricType::Gauge,
       [](const auto& feed) {
         return SumOverPolled(feed, [](const auto& table) { return table.null_cursors(); });
       },
       polled},
      {"tidemark_feed_poison_rows", "Rows whose cursor is no moment, or one that is yet to come.",
       MetricType::Gauge,
       [](const auto& feed) {
         return SumOverPolled(feed, [](const auto& table) { return table.poison_rows(); });
       },
       polled},
      {"tidemark_feed_key_scan_differences", "What the last key scans found and polls had not.",
       MetricType::Gauge,
       [](const auto& feed) {
         return SumOverPolled(feed, [](const auto& table) {
           return table.scan().missing() + table.scan().extra() + table.scan().different();
         });
       },
       polled},
  };
  return metrics;
}

// Of feeds that read a changelog, and of those that are moved to the log.
const std::vector<FeedMetric>& ChangelogMetrics() {
  const auto has_changelog = [](const v1::FeedStatus& feed) { return feed.has_changelog(); };
  static const std::vector<FeedMetric> metrics = {
      {"tidemark_feed_pulls_total", "Pulls of the changelog that ended.", MetricType::Counter,
       [](const auto& feed) { return feed.changelog().pulls(); }, has_changelog},
      {"tidemark_feed_changelog_rows_waiting",
       "Rows of the changelog that wait for an older transaction to end.", MetricType::Gauge,
       [](const auto& feed) { return feed.changelog().waiting_rows(); },
       [](const auto& feed) { return feed.changelog().has_watermark_xid(); }},
      {"tidemark_feed_changelog_rows_trimmed_total", "Rows that were deleted from the changelog.",
       MetricType::Counter, [](const auto& feed) { return feed.changelog().rows_trimmed(); },
       has_changelog},
      {"tidemark_feed_migrating", "1: the feed is on its way from poll to log.", MetricType::Gauge,
       [](const auto& feed) { return feed.has_migration(); },
       [](const auto& feed) { return feed.has_poll() || feed.has_migration(); }},
  };
  return metrics;
}

MetricFamily OfFeeds(const FeedMetric& metric, const v1::GetStatusResponse& status) {
  MetricFamily family = Family(metric.name, metric.help, metric.type);
  for (const v1::FeedStatus& feed : status.feeds()) {
    if (!metric.has(feed)) continue;
    family.metric.push_back(Sample(metric.type, metric.value(feed), {{"feed", feed.feed()}}));
  }
  return family;
}

class StatusCollectable final : public prometheus::Collectable {
 public:
  explicit StatusCollectable(const StatusReport& report) : report_(report) {}
  std::vector<MetricFamily> Collect() const override {
    const auto status = report_.Get("");
    return status.ok() ? MetricsOf(*status) : std::vector<MetricFamily>();
  }

 private:
  const StatusReport& report_;
};

}  // namespace

std::vector<MetricFamily> MetricsOf(const v1::GetStatusResponse& status) {
  std::vector<MetricFamily> families;
  for (const auto* metrics : {&FeedMetrics(), &PollMetrics(), &ChangelogMetrics()}) {
    for (const FeedMetric& metric : *metrics) families.push_back(OfFeeds(metric, status));
  }
  families.push_back(OfServer("tidemark_store_disk_bytes", "Bytes of the store on disk.",
                              static_cast<double>(status.store().disk_bytes())));
  families.push_back(OfServer("tidemark_store_disk_free_bytes", "Bytes free on the store's disk.",
                              static_cast<double>(status.store().disk_free_bytes())));
  families.push_back(OfServer("tidemark_streams", "Open streams of all feeds.", status.streams()));
  families.push_back(
      OfServer("tidemark_draining", "1: the server is stopping.", status.draining() ? 1 : 0));
  return families;
}

std::string MetricsText(const v1::GetStatusResponse& status) {
  return prometheus::TextSerializer().Serialize(MetricsOf(status));
}

MetricsEndpoint::MetricsEndpoint() = default;
MetricsEndpoint::~MetricsEndpoint() = default;

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Listen(
    const std::string& address, const StatusReport& report) {
  std::unique_ptr<MetricsEndpoint> endpoint(new MetricsEndpoint());
  endpoint->collectable_ = std::make_shared<StatusCollectable>(report);
  try {
    endpoint->exposer_ = std::make_unique<prometheus::Exposer>(address, /*num_threads=*/1);
    endpoint->exposer_->RegisterCollectable(endpoint->collectable_);
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        fmt::format("metrics cannot be served on {}: {}", address, error.what()));
  }
  return endpoint;
}

}  // namespace tidemark
