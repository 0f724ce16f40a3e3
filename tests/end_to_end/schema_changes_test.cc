// Changes of schema while a feed runs, and while nobody reads: every stream has old rows with old
// schemas, and is told at the right place where the new one begins.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

class SchemaChangesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
  }

  void Start() {
    if (tidemark_ == nullptr) tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started << tidemark_->Diagnostics();
  }

  void ExecEach(const std::vector<std::string>& statements) {
    auto session = postgres_->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    for (const std::string& sql : statements) {
      const absl::Status status = (*session)->Exec(sql);
      ASSERT_TRUE(status.ok()) << status << " in " << sql;
    }
  }

  // Reads from the earliest until `transactions` are there.
  std::vector<std::string> Read(uint64_t transactions) {
    RecordedStream stream("from the earliest");
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_start()->mutable_earliest();
    LiveSubscriber subscriber(tidemark_->address(), request, &stream);
    EXPECT_TRUE(subscriber.FollowUntil(
        [&] { return stream.finished_transactions() >= transactions; }, seconds(60)))
        << tidemark_->Diagnostics();
    return Lines(stream);
  }

  // "t(id integer, w text)" where a schema changes, "id='1' w='7'" for each change.
  static std::vector<std::string> Lines(const RecordedStream& stream) {
    const RecordedSegment& segment = stream.segments().back();
    const auto transactions = TransactionsOf(segment);
    EXPECT_TRUE(transactions.ok()) << transactions.status();
    std::vector<std::pair<std::pair<std::string, uint64_t>, std::string>> places;
    for (const RecordedEvent& event : segment.events) {
      if (!event.record.has_schema_change()) continue;
      const v1::SchemaChange& change = event.record.schema_change();
      std::string columns;
      for (const v1::Column& column : change.after().columns()) {
        columns += (columns.empty() ? "" : ", ") + column.name() + " " + column.source_type();
      }
      places.push_back({{change.position(), change.sequence()},
                        fmt::format("{}({})", change.after().table_name(), columns)});
    }
    for (const RecordedTransaction& transaction : *transactions) {
      // What the rows that were there before hold under the new columns comes in made ones.
      if (transaction.source_transaction_id.empty()) continue;
      for (const RecordedChange& change : transaction.changes) {
        const std::string columns = DescribeColumns(change.columns);
        places.push_back({{change.position, change.sequence},
                          change.op == "insert" ? columns : change.op + " " + columns});
      }
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> lines;
    for (auto& [place, line] : places) lines.push_back(std::move(line));
    return lines;
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
};

// Add, drop, add again, rename, retype, reorder, labels of an enum, a domain; each while the feed
// runs and each while it is stopped.
const std::vector<std::string> kAlterations = {
    "insert into t values (1, 7)",
    "alter table t add column n numeric(10,2)",
    "insert into t values (2, 8, 1.5)",
    // Between two changes of one transaction, and under the same name.
    "begin",
    "insert into t values (3, 9, 2)",
    "alter table t drop column w",
    "alter table t add column w text",
    "insert into t values (4, 2.5, 'text')",
    "commit",
    "alter table t rename column w to wide",
    "insert into t values (5, 3, 'renamed')",
    "alter table t alter column n type double precision",
    "insert into t values (6, 3.25, 'retyped')",
    "begin",
    "alter table t drop column n",
    "alter table t add column m mood",
    "commit",
    "insert into t values (7, 'reordered', 'happy')",
    "alter type mood add value 'calm' before 'happy'",
    "insert into t values (8, 'labelled', 'calm')",
    "alter type mood rename value 'happy' to 'glad'",
    "insert into t values (9, 'relabelled', 'glad')",
    "create domain few as integer check (value < 10)",
    "alter table t add column f few",
    "insert into t values (10, 'domain', 'sad', 5)",
    "alter domain few drop constraint few_check",
    "insert into t values (11, 'freed', 'sad', 50)",
};
constexpr uint64_t kTransactions = 10;

const auto kAltered = ElementsAre(
    "id='1' w='7'",                                                                    //
    "t(id integer, w integer, n numeric(10,2))", "id='2' n='1.50' w='8'",              //
    "id='3' n='2.00' w='9'",                                                           //
    "t(id integer, n numeric(10,2), w text)", "id='4' n='2.50' w='text'",              //
    "t(id integer, n numeric(10,2), wide text)", "id='5' n='3.00' wide='renamed'",     //
    "t(id integer, n double precision, wide text)", "id='6' n='3.25' wide='retyped'",  //
    "t(id integer, wide text, m mood)", "id='7' m='happy' wide='reordered'",           //
    "id='8' m='calm' wide='labelled'", "id='9' m='glad' wide='relabelled'",            //
    "t(id integer, wide text, m mood, f few)",                                         //
    "f='5' id='10' m='sad' wide='domain'", "f='50' id='11' m='sad' wide='freed'");

// proves R33, R51, B019
TEST_F(SchemaChangesTest, StandAtTheirPlaceWhileTheFeedRuns) {
  ExecEach(
      {"create type mood as enum ('sad', 'happy')", "create table t (id int primary key, w int)"});
  Start();
  ExecEach(kAlterations);
  EXPECT_THAT(Read(kTransactions), kAltered);
}

// proves R33, R51, B019: the catalog has the last schema already when the first change is read.
TEST_F(SchemaChangesTest, StandAtTheirPlaceWhenNobodyReadMeanwhile) {
  ExecEach(
      {"create type mood as enum ('sad', 'happy')", "create table t (id int primary key, w int)"});
  Start();
  tidemark_->Kill9();
  ExecEach(kAlterations);
  Start();
  EXPECT_THAT(Read(kTransactions), kAltered);
  // And once more from what is stored.
  tidemark_->Kill9();
  Start();
  EXPECT_THAT(Read(kTransactions), kAltered);
}

// proves R33: what the catalog does not say any more is no error.
TEST_F(SchemaChangesTest, CompositesAlteredWhileNobodyReadArriveAsText) {
  ExecEach({"create type pair as (a int, b text)",
            "create table c (id int primary key, p pair, l pair[], n int)"});
  Start();
  tidemark_->Kill9();
  ExecEach({"insert into c values (1, '(1,x)', '{\"(2,y)\"}', 1)",
            "alter type pair add attribute d bool",
            "insert into c values (2, '(1,x,t)', '{\"(2,y,f)\"}', 2)",
            "alter type pair drop attribute b", "insert into c values (3, '(1,t)', '{}', 3)",
            "insert into c values (4, null, null, 4)", "update c set n = 30 where id = 3",
            "delete from c where id = 1"});
  Start();
  RecordedStream stream("composites");
  v1::SubscribeRequest request;
  request.set_feed("main");
  request.mutable_start()->mutable_earliest();
  LiveSubscriber subscriber(tidemark_->address(), request, &stream);
  ASSERT_TRUE(
      subscriber.FollowUntil([&] { return stream.finished_transactions() >= 6; }, seconds(60)))
      << tidemark_->Diagnostics();
  EXPECT_THAT(Lines(stream),
              ElementsAre("id='1' l='{\"(2,y)\"}' n='1' p='(1,x)'",
                          "id='2' l='{\"(2,y,f)\"}' n='2' p='(1,x,t)'",
                          "id='3' l='{}' n='3' p='(1,t)'", "id='4' l=NULL n='4' p=NULL",
                          "update id='3' l='{}' n='30' p='(1,t)'", "delete id='1'"));
  std::vector<std::string> forms;
  for (const RecordedEvent& event : stream.segments().back().events) {
    for (const v1::Transaction& part : event.record.batch().transactions()) {
      for (const v1::Run& run : part.runs()) {
        for (const v1::Change& change : run.changes()) {
          if (change.op() != v1::OP_INSERT) continue;
          forms.push_back(change.after(1).has_text()        ? "text"
                          : change.after(1).has_composite() ? "composite"
                                                            : "null");
        }
      }
    }
  }
  EXPECT_THAT(forms, ElementsAre("text", "text", "composite", "null"))
      << "(1,x) has as many fields as (a, d), and x is no boolean";
}

}  // namespace
}  // namespace tidemark::testing
