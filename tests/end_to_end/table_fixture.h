// A PostgreSQL, a server, and one subscriber that records everything: what it makes of a table is
// compared with the table.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/timestamps.h"
#include "tests/testing/file_text.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/wait_until.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::testing {

class TableFixture : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kDeadline{120};

  // Before a server is started: the table by which the subscriber knows how far it is.
  void SetUpPostgres(LivePostgresOptions options = {}) {
    auto postgres = LivePostgres::Create(std::move(options));
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Exec({"create table marker (n int primary key)"});
  }

  void StartServer(LiveTidemarkOptions options = {}) {
    if (tidemark_ == nullptr) {
      // What moved without a message is found sooner than an application needs it.
      if (std::none_of(options.postgres_lines.begin(), options.postgres_lines.end(),
                       [](const auto& line) { return line.starts_with("catalog_period:"); })) {
        options.postgres_lines.push_back("catalog_period: 1s");
      }
      tidemark_ = std::make_unique<LiveTidemark>(*postgres_, std::move(options));
    }
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started << tidemark_->Diagnostics();
    admin_ = v1::FeedAdmin::NewStub(
        grpc::CreateChannel(tidemark_->address(), grpc::InsecureChannelCredentials()));
    if (subscriber_ != nullptr) return;
    v1::SubscribeRequest request;
    request.set_feed("main");
    subscriber_ = std::make_unique<LiveSubscriber>(tidemark_->address(), request, &stream_);
    subscriber_->Connect();
  }

  // Connects the server to another cluster from its next start on.
  void PointAt(const LivePostgres& postgres) {
    std::string config = FileText(tidemark_->config_file());
    const std::string before = fmt::format("port: {}\n", postgres_->port());
    const size_t at = config.find(before);
    ASSERT_NE(at, std::string::npos) << config;
    config.replace(at, before.size(), fmt::format("port: {}\n", postgres.port()));
    std::ofstream(tidemark_->config_file(), std::ios::trunc) << config;
  }

  // One by one on one session, unless they say BEGIN.
  void Exec(const std::vector<std::string>& statements) {
    auto session = postgres_->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    for (const std::string& sql : statements) {
      const absl::Status status = (*session)->Exec(sql);
      ASSERT_TRUE(status.ok()) << status << " in " << sql;
    }
  }

  v1::FeedStatus StatusOfFeed() {
    grpc::ClientContext context;
    v1::GetStatusRequest request;
    request.set_feed("main");
    v1::GetStatusResponse response;
    if (!admin_->GetStatus(&context, request, &response).ok()) return {};
    return response.feeds(0);
  }
  v1::TableStatus StatusOf(const std::string& table) { return StatusIn(StatusOfFeed(), table); }
  static v1::TableStatus StatusIn(const v1::FeedStatus& feed, const std::string& table) {
    for (const v1::TableStatus& status : feed.tables()) {
      if (status.table() == table) return status;
    }
    return {};
  }

  // Until the feed knows of everything that moved before `now`, and follows the table.
  ::testing::AssertionResult WaitUntilSettled(const std::string& table,
                                              absl::Time now = absl::Now()) {
    v1::FeedStatus feed;
    return WaitUntil(
        [&] {
          feed = StatusOfFeed();
          return FromTimestamp(feed.tables_seen()) > now &&
                 StatusIn(feed, table).state() == v1::TABLE_FOLLOW_STATE_FOLLOWED;
        },
        kDeadline, [&] { return feed.ShortDebugString() + "\n" + tidemark_->Diagnostics(); });
  }

  // Until the table is in this state, after `more` readings of it began since the call before.
  ::testing::AssertionResult WaitForState(const std::string& table, v1::TableFollowState state,
                                          const std::string& detail = "") {
    return WaitUntil(
        [&] {
          const v1::TableStatus status = StatusOf(table);
          return status.state() == state &&
                 (status.detail() + status.error().reason() + status.error().message())
                         .find(detail) != std::string::npos;
        },
        kDeadline,
        [&] { return StatusOf(table).ShortDebugString() + "\n" + tidemark_->Diagnostics(); });
  }

  grpc::Status AddTable(const std::string& table) {
    grpc::ClientContext context;
    v1::AddTableRequest request;
    request.set_feed("main");
    request.set_table(table);
    v1::AddTableResponse response;
    return admin_->AddTable(&context, request, &response);
  }
  grpc::Status RemoveTable(const std::string& table, bool truncate) {
    grpc::ClientContext context;
    v1::RemoveTableRequest request;
    request.set_feed("main");
    request.set_table(table);
    request.set_truncate(truncate);
    v1::RemoveTableResponse response;
    return admin_->RemoveTable(&context, request, &response);
  }
  grpc::Status StartSnapshot(const std::string& table) {
    grpc::ClientContext context;
    v1::StartSnapshotRequest request;
    request.set_feed("main");
    request.add_tables(table);
    v1::StartSnapshotResponse response;
    return admin_->StartSnapshot(&context, request, &response);
  }

  // The subscriber has everything that was committed, and made, before the call.
  void CatchUp() {
    const std::string marker = std::to_string(++markers_);
    Exec({"insert into marker values (" + marker + ")"});
    size_t segment = 0, event = 0;
    const auto seen = [&] {
      // Only what came since the last look.
      for (; segment < stream_.segments().size(); ++segment, event = 0) {
        const auto& events = stream_.segments()[segment].events;
        for (; event < events.size(); ++event) {
          if (HasMarker(events[event].record)) return true;
        }
        if (segment + 1 == stream_.segments().size()) return false;
      }
      return false;
    };
    segment = stream_.segments().empty() ? 0 : stream_.segments().size() - 1;
    ASSERT_TRUE(subscriber_->FollowUntil(seen, kDeadline)) << tidemark_->Diagnostics();
  }

  // What the subscriber has of a table, and what the source has: text of every row, sorted.
  std::vector<std::string> Here(const std::string& table) {
    std::vector<std::string> rows;
    const auto folded = Fold(stream_);
    EXPECT_TRUE(folded.ok()) << folded.status();
    const auto found = folded->find(table);
    if (found == folded->end()) return rows;
    for (const auto& [key, columns] : found->second) rows.push_back(DescribeColumns(columns));
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  std::vector<std::string> There(const std::string& table) {
    const auto found = postgres_->Query("select * from " + table);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> rows;
    for (const auto& row : found->rows) {
      Columns columns;
      for (size_t i = 0; i < row.size(); ++i) columns[found->columns[i]] = row[i];
      rows.push_back(DescribeColumns(columns));
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  // Ops of the changes of a table since change number `from`: "read 2, delete 1".
  std::vector<RecordedChange> ChangesOf(const std::string& table) {
    std::vector<RecordedChange> changes;
    const auto transactions = SeenTransactions(stream_);
    EXPECT_TRUE(transactions.ok()) << transactions.status();
    for (const RecordedTransaction& transaction : *transactions) {
      for (const RecordedChange& change : transaction.changes) {
        if (change.table == table) changes.push_back(change);
      }
    }
    return changes;
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
  std::unique_ptr<v1::FeedAdmin::Stub> admin_;
  RecordedStream stream_{"subscriber"};
  std::unique_ptr<LiveSubscriber> subscriber_;

 private:
  bool HasMarker(const v1::SubscribeResponse& record) const {
    // A stream that opens late has it among its rows.
    for (const v1::Row& row : record.rows().rows()) {
      if (row.values_size() == 1 && row.values(0).integer() == markers_) return true;
    }
    for (const v1::Transaction& part : record.batch().transactions()) {
      for (const v1::Run& run : part.runs()) {
        for (const v1::Change& change : run.changes()) {
          if (change.after_size() == 1 && change.after(0).integer() == markers_) return true;
        }
      }
    }
    return false;
  }

  int64_t markers_ = 1'000'000'000;
};

}  // namespace tidemark::testing
