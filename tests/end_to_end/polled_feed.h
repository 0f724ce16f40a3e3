// One polled feed of a server, and one subscriber that records all of it, from its rows on. When it
// goes out of scope, every change that was told must have told a difference (polled_changes.h).
//
// Thread rule: one thread at a time.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/end_to_end/polled_changes.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/wait_until.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::testing {

class PolledFeed {
 public:
  static constexpr std::chrono::seconds kDeadline{60};

  // `tables`: of the subscriber's filter; none: all.
  PolledFeed(const std::string& server, std::string name,
             const std::vector<std::string>& tables = {})
      : name_(std::move(name)),
        channel_(
            grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), Arguments())),
        admin_(v1::FeedAdmin::NewStub(channel_)),
        feed_(v1::ChangeFeed::NewStub(channel_)),
        stream_("subscriber of " + name_),
        subscriber_(server, Request(tables), &stream_) {}
  ~PolledFeed() {
    if (::testing::Test::HasFailure()) return;
    const absl::Status kept = CheckDifferences(stream_);
    if (!kept.ok()) ADD_FAILURE() << stream_.name() << ": " << kept.message();
  }
  PolledFeed(const PolledFeed&) = delete;
  PolledFeed& operator=(const PolledFeed&) = delete;

  const std::string& name() const { return name_; }
  RecordedStream& stream() { return stream_; }
  LiveSubscriber& subscriber() { return subscriber_; }
  v1::FeedAdmin::Stub& admin() { return *admin_; }
  v1::ChangeFeed::Stub& feed() { return *feed_; }

  // Empty while the server does not answer.
  v1::FeedStatus Status() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallDeadline * kDeadlineFactor);
    context.set_wait_for_ready(true);
    v1::GetStatusRequest request;
    request.set_feed(name_);
    v1::GetStatusResponse response;
    if (!admin_->GetStatus(&context, request, &response).ok()) return {};
    return response.feeds_size() > 0 ? response.feeds(0) : v1::FeedStatus();
  }
  v1::PolledTableStatus StatusOf(const std::string& table) {
    const v1::FeedStatus status = Status();
    for (const v1::PolledTableStatus& polled : status.poll().tables()) {
      if (polled.table() == table) return polled;
    }
    return {};
  }
  // Everything that the status says is wrong: "REASON message" by line.
  static std::string Complaints(const v1::FeedStatus& status) {
    std::string text;
    const auto add = [&](const std::string& reason, const std::string& message) {
      if (!reason.empty()) text += reason + " " + message + "\n";
    };
    add(status.last_error().reason(), status.last_error().message());
    for (const auto& table : status.tables()) {
      add(table.error().reason(), table.table() + " " + table.error().message());
    }
    for (const auto& problem : status.table_problems()) {
      add(problem.reason(), problem.table() + " " + problem.message());
    }
    return text;
  }
  // Until the status names this reason, of the feed or of a table; or says all of that no more.
  ::testing::AssertionResult WaitForComplaint(const std::string& reason) {
    v1::FeedStatus status;
    return WaitUntil(
        [&] {
          status = Status();
          return Complaints(status).find(reason) != std::string::npos;
        },
        kDeadline, [&] { return reason + " is not in " + status.DebugString(); });
  }

  // Until everything that was committed before the call was looked at, and published: what is seen
  // to end first may have begun before, and what the last one found need not be published.
  ::testing::AssertionResult WaitForPolls(uint64_t polls = kPollsToWait) {
    v1::FeedStatus status = Status();
    uint64_t from = status.poll().polls();
    return WaitUntil(
        [&] {
          status = Status();
          // It counts anew after a start.
          from = std::min<uint64_t>(from, status.poll().polls());
          return status.poll().polls() >= from + polls;
        },
        kDeadline, [&] { return status.DebugString(); });
  }

  // The subscriber has everything that is published now.
  ::testing::AssertionResult ReadToHead() {
    const v1::FeedStatus status = Status();
    const std::string head = status.head().position();
    if (head.empty()) return ::testing::AssertionFailure() << "no head: " << status.DebugString();
    return subscriber_.FollowUntil([&] { return Reached() >= head; }, kDeadline);
  }

  ::testing::AssertionResult Settle() {
    const auto polled = WaitForPolls();
    return polled ? ReadToHead() : polled;
  }

  // Changes of a table since the last call for it.
  std::vector<RecordedChange> NewChanges(const std::string& table) {
    std::vector<RecordedChange> changes;
    const auto transactions = SeenTransactions(stream_);
    EXPECT_TRUE(transactions.ok()) << transactions.status();
    std::string& told = told_[table];
    std::string last = told;
    for (const RecordedTransaction& transaction : *transactions) {
      if (transaction.position <= told) continue;
      last = transaction.position;
      for (const RecordedChange& change : transaction.changes) {
        if (change.table == table) changes.push_back(change);
      }
    }
    told = last;
    return changes;
  }
  // The same as "insert 7", "delete 1,b": the op and the key.
  std::vector<std::string> Told(const std::string& table) {
    std::vector<std::string> told;
    for (const RecordedChange& change : NewChanges(table)) {
      std::string text = change.op;
      for (const auto& [name, value] : change.key) {
        text += (text == change.op ? " " : ",") + value.value_or("NULL");
      }
      told.push_back(text);
    }
    return told;
  }

  // Text of every row of a table as the subscriber has it, sorted.
  std::vector<std::string> Rows(const std::string& table) {
    std::vector<std::string> rows;
    const auto folded = Fold(stream_);
    EXPECT_TRUE(folded.ok()) << folded.status();
    if (!folded.ok() || folded->count(table) == 0) return rows;
    for (const auto& [key, columns] : folded->at(table)) rows.push_back(DescribeColumns(columns));
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  grpc::Status StartSnapshot(const std::string& table) {
    grpc::ClientContext context;
    v1::StartSnapshotRequest request;
    request.set_feed(name_);
    request.add_tables(table);
    v1::StartSnapshotResponse response;
    return admin_->StartSnapshot(&context, request, &response);
  }
  // Compares all keys of a table with the source, to the end; what was found is told.
  ::testing::AssertionResult Scan(const std::string& table) {
    const v1::KeyScanStatus before = StatusOf(table).scan();
    const grpc::Status ordered = StartSnapshot(table);
    if (!ordered.ok()) return ::testing::AssertionFailure() << ordered.error_message();
    v1::KeyScanStatus scan;
    const auto scanned = WaitUntil(
        [&] {
          scan = StatusOf(table).scan();
          return !scan.running() && scan.has_finished() && Later(scan.started(), before.started());
        },
        kDeadline, [&] { return scan.DebugString() + Status().DebugString(); });
    return scanned ? Settle() : scanned;
  }

  // "MISSING {"id":1}", … of a table, and "FAILED reason" where it was not compared to its end.
  std::vector<std::string> Verify(const std::string& table) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDeadline * kDeadlineFactor);
    v1::VerifyRequest request;
    request.set_feed(name_);
    request.add_tables(table);
    const auto reader = admin_->Verify(&context, request);
    std::vector<std::string> found;
    for (v1::VerifyResponse record; reader->Read(&record);) {
      if (record.kind() != v1::DIFFERENCE_KIND_UNSPECIFIED) {
        found.push_back(v1::DifferenceKind_Name(record.kind()).substr(16) + " " + record.key());
      }
      if (record.has_error()) found.push_back("FAILED " + record.error().reason());
    }
    const grpc::Status end = reader->Finish();
    if (!end.ok()) found.push_back("FAILED " + end.error_message());
    return found;
  }

  v1::DescribeFeedResponse Describe() {
    grpc::ClientContext context;
    v1::DescribeFeedRequest request;
    request.set_feed(name_);
    v1::DescribeFeedResponse response;
    const grpc::Status status = feed_->DescribeFeed(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

 private:
  static constexpr std::chrono::seconds kCallDeadline{10};
  static constexpr uint64_t kPollsToWait = 3;

  static grpc::ChannelArguments Arguments() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
    return arguments;
  }

  v1::SubscribeRequest Request(const std::vector<std::string>& tables) const {
    v1::SubscribeRequest request;
    request.set_feed(name_);
    request.mutable_filter()->mutable_tables()->Add(tables.begin(), tables.end());
    // A head without a transaction is told by these alone.
    request.mutable_progress_period()->set_nanos(100'000'000);
    return request;
  }

  static bool Later(const google::protobuf::Timestamp& time,
                    const google::protobuf::Timestamp& than) {
    return std::pair(time.seconds(), time.nanos()) > std::pair(than.seconds(), than.nanos());
  }

  // How far the subscriber is; empty inside a bootstrap.
  std::string Reached() {
    const std::string& cursor = stream_.resume_cursor();
    if (cursor == inspected_cursor_ || cursor.empty()) return inspected_position_;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallDeadline * kDeadlineFactor);
    v1::InspectCursorRequest request;
    request.set_feed(name_);
    request.set_cursor(cursor);
    v1::InspectCursorResponse response;
    if (!feed_->InspectCursor(&context, request, &response).ok()) return {};
    inspected_cursor_ = cursor;
    inspected_position_ = response.position();
    return inspected_position_;
  }

  const std::string name_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::FeedAdmin::Stub> admin_;
  const std::unique_ptr<v1::ChangeFeed::Stub> feed_;
  RecordedStream stream_;
  LiveSubscriber subscriber_;
  // Positions up to which the changes of a table were asked for.
  std::map<std::string, std::string> told_;
  std::string inspected_cursor_;
  std::string inspected_position_;
};

}  // namespace tidemark::testing
