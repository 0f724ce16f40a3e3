// A table that is large is read beside the stream while writers change it, and the server is killed
// again and again: not a row is wrong in the end, and other tables flow meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "tests/end_to_end/row_writer.h"
#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

int RowsOfTable() { return IsLong() ? 2'000'000 : 60'000; }
int Kills() { return IsLong() ? 10 : 4; }
constexpr int kWriters = 3;
constexpr int kRowsCompared = 100'000;

// The rows of public.big as a consumer has them, without what they came by.
class BigRows {
 public:
  struct Row {
    int64_t v = 0;
    size_t note = 0;
    friend bool operator==(const Row&, const Row&) = default;
  };
  static Row Of(int64_t v, const std::string& note) { return {v, std::hash<std::string>()(note)}; }

  explicit BigRows(const std::string& server)
      : stub_(v1::ChangeFeed::NewStub(
            grpc::CreateChannel(server, grpc::InsecureChannelCredentials()))) {}

  // Goes on from the cursor of the last call up to now, as often as the stream breaks.
  void ReadUpToNow() {
    for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      v1::SubscribeRequest request;
      request.set_feed("main");
      request.mutable_filter()->add_tables("public.big");
      request.mutable_until()->mutable_now();
      if (cursor_.empty()) {
        request.mutable_start()->mutable_earliest();
      } else {
        request.mutable_start()->set_cursor(cursor_);
      }
      auto reader = stub_->Subscribe(&context, request);
      v1::SubscribeResponse record;
      while (reader->Read(&record)) Take(record);
      end_ = reader->Finish();
      pending_.clear();
      if (end_.ok()) return;
    }
    FAIL() << end_.error_message();
  }

  const std::map<int64_t, Row>& rows() const { return rows_; }

 private:
  static constexpr int kAttemptsMax = 100;

  void Take(const v1::SubscribeResponse& record) {
    for (const v1::Transaction& part : record.batch().transactions()) {
      pending_.push_back(part);
      if (!part.last()) continue;
      // Only a whole transaction has an effect.
      for (const v1::Transaction& one : pending_) Apply(one);
      pending_.clear();
      cursor_ = part.cursor();
    }
    if (!record.progress().cursor().empty()) cursor_ = record.progress().cursor();
    if (!record.closing().cursor().empty()) cursor_ = record.closing().cursor();
  }

  void Apply(const v1::Transaction& part) {
    for (const v1::Run& run : part.runs()) {
      for (const v1::Change& change : run.changes()) {
        if (change.op() == v1::OP_TRUNCATE) {
          rows_.clear();
        } else if (change.op() == v1::OP_DELETE) {
          rows_.erase(change.key(0).integer());
        } else {
          rows_[change.after(0).integer()] = Of(change.after(1).integer(), change.after(2).text());
        }
      }
    }
  }

  const std::unique_ptr<v1::ChangeFeed::Stub> stub_;
  std::string cursor_;
  std::vector<v1::Transaction> pending_;
  std::map<int64_t, Row> rows_;
  grpc::Status end_;
};

class LargeTableTest : public TableFixture {
 protected:
  // How many rows differ between here and the source.
  int64_t Differences(const std::map<int64_t, BigRows::Row>& here) {
    auto session = postgres_->Connect();
    EXPECT_TRUE(session.ok());
    int64_t differences = 0, there = 0;
    for (int from = 0; from < RowsOfTable(); from += kRowsCompared) {
      const auto rows = (*session)->Query(fmt::format(
          "select id, v, note from big where id >= {} and id < {}", from, from + kRowsCompared));
      EXPECT_TRUE(rows.ok()) << rows.status();
      if (!rows.ok()) return -1;
      there += static_cast<int64_t>(rows->rows.size());
      for (const auto& row : rows->rows) {
        const auto found = here.find(std::stoll(*row[0]));
        const auto source = BigRows::Of(std::stoll(*row[1]), row[2].value_or(""));
        if (found == here.end() || !(found->second == source)) ++differences;
      }
    }
    EXPECT_EQ(static_cast<int64_t>(here.size()), there);
    return differences;
  }
};

// proves A48, B075, B077, H4
TEST_F(LargeTableTest, ReadUnderWritersAndKillsIsExact) {
  SetUpPostgres();
  Exec({"create table big (id int primary key, v int, note text)",
        fmt::format("insert into big select i, 0, repeat('n', 50) from generate_series(0, {}) i",
                    RowsOfTable() - 1)});
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [public.marker]"};
  StartServer(options);
  std::vector<std::unique_ptr<RowWriter>> writers;
  for (int i = 1; i <= kWriters; ++i) {
    writers.push_back(
        std::make_unique<RowWriter>(*postgres_, RowsOfTable(), static_cast<uint64_t>(i)));
  }
  ASSERT_TRUE(AddTable("public.big").ok());
  BigRows rows(tidemark_->address());
  const auto deadline = std::chrono::minutes(IsLong() ? 20 : 2);
  for (int kill = 1; kill <= Kills(); ++kill) {
    const auto part = static_cast<uint64_t>(RowsOfTable()) * kill / (Kills() + 2);
    ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.big").rows_read() >= part; }, deadline,
                          [&] { return StatusOf("public.big").ShortDebugString(); }));
    tidemark_->Kill9();
    StartServer();
    // Not a chunk that was told is read again.
    ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.big").rows_read() >= part; }, deadline,
                          [&] { return StatusOf("public.big").ShortDebugString(); }));
    CatchUp();  // others flow
    ASSERT_FALSE(HasFatalFailure());
    rows.ReadUpToNow();
  }
  ASSERT_TRUE(
      WaitUntil([&] { return StatusOf("public.big").state() == v1::TABLE_FOLLOW_STATE_FOLLOWED; },
                deadline, [&] { return StatusOf("public.big").ShortDebugString(); }));
  for (auto& writer : writers) writer->Stop();
  rows.ReadUpToNow();
  EXPECT_EQ(Differences(rows.rows()), 0);
}

}  // namespace
}  // namespace tidemark::testing
