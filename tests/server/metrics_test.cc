#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemark {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::GetStatusResponse Sample() {
  v1::GetStatusResponse status;
  v1::FeedStatus* shop = status.add_feeds();
  shop->set_feed("shop");
  shop->set_source_state(v1::SOURCE_STATE_STREAMING);
  shop->set_transactions_captured(7);
  shop->set_changes_captured(11);
  shop->mutable_lag()->set_bytes(5'000'000'000);
  shop->mutable_lag()->mutable_time()->set_nanos(250'000'000);
  shop->mutable_slot()->set_retained_bytes(4096);
  v1::FeedStatus* broken = status.add_feeds();
  broken->set_feed("broken");
  broken->set_source_state(v1::SOURCE_STATE_FAILED);
  status.mutable_store()->set_disk_bytes(123);
  status.set_streams(2);
  return status;
}

TEST(Metrics, EveryFeedIsASample) {
  const std::string text = MetricsText(Sample());
  EXPECT_THAT(text, HasSubstr("# TYPE tidemark_feed_changes_captured_total counter\n"
                              "tidemark_feed_changes_captured_total{feed=\"shop\"} 11\n"
                              "tidemark_feed_changes_captured_total{feed=\"broken\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("tidemark_feed_failed{feed=\"shop\"} 0\n"
                              "tidemark_feed_failed{feed=\"broken\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tidemark_feed_streaming{feed=\"shop\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tidemark_feed_lag_bytes{feed=\"shop\"} 5000000000\n"));
  EXPECT_THAT(text, HasSubstr("tidemark_feed_lag_seconds{feed=\"shop\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("tidemark_store_disk_bytes 123\n"));
  EXPECT_THAT(text, HasSubstr("tidemark_streams 2\n"));
}

TEST(Metrics, WhatASourceDoesNotHaveIsNotZero) {
  const std::string text = MetricsText(Sample());
  EXPECT_THAT(text, HasSubstr("tidemark_feed_slot_retained_bytes{feed=\"shop\"} 4096\n"));
  EXPECT_THAT(text, Not(HasSubstr("tidemark_feed_slot_retained_bytes{feed=\"broken\"}")));
  EXPECT_THAT(text, Not(HasSubstr("tidemark_feed_slot_seen_timestamp_seconds{")));
  v1::GetStatusResponse seen = Sample();
  seen.mutable_feeds(0)->mutable_slot()->mutable_seen()->set_seconds(1234);
  EXPECT_THAT(MetricsText(seen),
              HasSubstr("tidemark_feed_slot_seen_timestamp_seconds{feed=\"shop\"} 1234\n"));
  // A slot without a limit has no headroom.
  EXPECT_THAT(text, Not(HasSubstr("tidemark_feed_slot_headroom_bytes{")));
}

// proves A03, A26
TEST(Metrics, APolledFeedSaysWhatPollingCannotSee) {
  v1::GetStatusResponse status = Sample();
  v1::FeedStatus* feed = status.add_feeds();
  feed->set_feed("polled");
  feed->mutable_poll()->set_polls(3);
  feed->mutable_poll()->mutable_overlap()->set_seconds(60);
  for (const uint64_t late : {1u, 2u}) {
    v1::PolledTableStatus* table = feed->mutable_poll()->add_tables();
    table->set_late_rows(late);
    table->set_null_cursors(4);
    table->mutable_scan()->set_missing(5);
    table->mutable_scan()->set_different(1);
  }
  EXPECT_THAT(MetricsText(status), HasSubstr("tidemark_feed_polls_total{feed=\"polled\"} 3\n"));
  EXPECT_THAT(MetricsText(status), HasSubstr("tidemark_feed_late_rows_total{feed=\"polled\"} 3\n"));
  EXPECT_THAT(MetricsText(status), HasSubstr("tidemark_feed_null_cursors{feed=\"polled\"} 8\n"));
  EXPECT_THAT(MetricsText(status),
              HasSubstr("tidemark_feed_key_scan_differences{feed=\"polled\"} 12\n"));
  EXPECT_THAT(MetricsText(status), Not(HasSubstr("overlap_needed_seconds{")))
      << "the source does not say it";
  feed->mutable_poll()->mutable_overlap_needed()->set_seconds(90);
  EXPECT_THAT(MetricsText(status),
              HasSubstr("tidemark_feed_poll_overlap_needed_seconds{feed=\"polled\"} 90\n"));
  EXPECT_THAT(MetricsText(status), Not(HasSubstr("tidemark_feed_polls_total{feed=\"shop\"}")));
  EXPECT_THAT(MetricsText(status), HasSubstr("tidemark_feed_migrating{feed=\"polled\"} 0\n"));
}

TEST(Metrics, AChangelogSaysWhatWaits) {
  v1::GetStatusResponse status = Sample();
  v1::ChangelogStatus* changelog = status.mutable_feeds(0)->mutable_changelog();
  changelog->set_pulls(7);
  EXPECT_THAT(MetricsText(status), HasSubstr("tidemark_feed_pulls_total{feed=\"shop\"} 7\n"));
  EXPECT_THAT(MetricsText(status), Not(HasSubstr("changelog_rows_waiting{")));
  changelog->set_watermark_xid(774);
  changelog->set_waiting_rows(2);
  EXPECT_THAT(MetricsText(status),
              HasSubstr("tidemark_feed_changelog_rows_waiting{feed=\"shop\"} 2\n"));
}

}  // namespace
}  // namespace tidemark
