// The comparison of the rows with the source.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/end_to_end/made_changes.h"
#include "tests/end_to_end/row_writer.h"
#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

using capture::ValueTag;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VerifyTest : public TableFixture {
 protected:
  using Reader = std::unique_ptr<grpc::ClientReader<v1::VerifyResponse>>;

  Reader Call(grpc::ClientContext* context, const std::vector<std::string>& tables) {
    v1::VerifyRequest request;
    request.set_feed("main");
    request.mutable_tables()->Add(tables.begin(), tables.end());
    return admin_->Verify(context, request);
  }

  // Every record, until the end.
  std::vector<v1::VerifyResponse> Verify(const std::vector<std::string>& tables = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDeadline * kDeadlineFactor);
    const Reader reader = Call(&context, tables);
    std::vector<v1::VerifyResponse> records;
    for (v1::VerifyResponse record; reader->Read(&record);) records.push_back(record);
    end_ = reader->Finish();
    return records;
  }
  // "MISSING {"id":1}", … of the records; those without a kind are left out.
  static std::vector<std::string> Found(const std::vector<v1::VerifyResponse>& records) {
    std::vector<std::string> found;
    for (const v1::VerifyResponse& record : records) {
      if (record.kind() == v1::DIFFERENCE_KIND_UNSPECIFIED) continue;
      std::string text = v1::DifferenceKind_Name(record.kind()).substr(16) + " " + record.key();
      for (const std::string& column : record.columns()) text += " " + column;
      for (const std::string& column : record.absent_columns()) text += " " + column + "?";
      found.push_back(text);
    }
    return found;
  }
  // "public.t SOURCE_SETTING", … of the tables' last records.
  static std::vector<std::string> Ends(const std::vector<v1::VerifyResponse>& records) {
    std::vector<std::string> ends;
    for (const v1::VerifyResponse& record : records) {
      if (record.last()) ends.push_back(record.table() + " " + record.error().reason());
    }
    return ends;
  }

  uint64_t TransactionsCaptured() {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    EXPECT_TRUE(admin_->GetStatus(&context, {}, &response).ok());
    return response.feeds(0).log_transactions();
  }

  // Removes row 2, adds row 9999, changes row 3, forgets a column of row 4.
  void Corrupt() {
    const auto stopped = tidemark_->Stop();
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    const absl::Status made =
        MakeChanges(*tidemark_, "t", [](uint64_t schema, capture::TransactionBuilder* builder) {
          const auto row = [](int64_t id, const std::string& note) {
            return IntegerImage(ValueTag::kAfter, id) + TextImage(note);
          };
          builder->AddChange(v1::OP_DELETE, schema, {.key = IntegerImage(ValueTag::kKey, 2)});
          builder->AddChange(v1::OP_INSERT, schema, {.after = row(9999, "nobody wrote it")});
          builder->AddChange(v1::OP_UPDATE, schema, {.after = row(3, "other")});
          builder->AddChange(v1::OP_DELETE, schema, {.key = IntegerImage(ValueTag::kKey, 4)});
          builder->AddChange(v1::OP_INSERT, schema,
                             {.after = IntegerImage(ValueTag::kAfter, 4) + AbsentImage()});
        });
    ASSERT_TRUE(made.ok()) << made;
    StartServer();
  }

  grpc::Status end_;
};

// proves A52: exactly what is wrong is named, and nothing is changed by looking.
TEST_F(VerifyTest, NamesExactlyTheKeysThatDiffer) {
  // It takes transaction ids of its own.
  SetUpPostgres({.settings = {{"autovacuum", "off"}}});
  Exec({"create table t (id int primary key, note text)",
        "insert into t select i, 'note ' || i from generate_series(1, 3000) i",
        "create table u (id int primary key)", "insert into u values (1)"});
  StartServer();
  CatchUp();
  EXPECT_THAT(Found(Verify()), IsEmpty());
  EXPECT_TRUE(end_.ok());
  Corrupt();
  CatchUp();
  const uint64_t before = TransactionsCaptured();
  // Nothing is written at the source, not even an id of a transaction.
  Exec({"alter role postgres set default_transaction_read_only = on"});
  const auto xid = postgres_->QueryValue("select pg_snapshot_xmax(pg_current_snapshot())");
  const std::vector<std::string> wrong = {R"(MISSING {"id":2})", R"(DIFFERENT {"id":3} note)",
                                          R"(INCOMPLETE {"id":4} note?)", R"(EXTRA {"id":9999})"};
  for (int round = 0; round < 2; ++round) {
    const auto records = Verify();
    ASSERT_TRUE(end_.ok()) << end_.error_message();
    EXPECT_EQ(Found(records), wrong);
    EXPECT_THAT(Ends(records), ElementsAre("public.marker ", "public.t ", "public.u "));
    for (const v1::VerifyResponse& record : records) {
      if (record.table() != "public.t" || !record.last()) continue;
      const v1::VerifyTotals& totals = record.totals();
      EXPECT_EQ(totals.rows_compared(), 3001u);
      EXPECT_EQ(totals.missing(), 1u);
      EXPECT_EQ(totals.extra(), 1u);
      EXPECT_EQ(totals.different(), 1u);
      EXPECT_EQ(totals.incomplete(), 1u);
      EXPECT_EQ(totals.not_comparable(), 0u);
      EXPECT_EQ(totals.first_position().size(), 40u);
      EXPECT_LE(totals.first_position(), totals.last_position());
    }
  }
  EXPECT_EQ(*postgres_->QueryValue("select pg_snapshot_xmax(pg_current_snapshot())"), *xid);
  EXPECT_EQ(TransactionsCaptured(), before) << "nothing was emitted";
  // What a reading of the table mends is no difference any more.
  ASSERT_TRUE(StartSnapshot("public.t").ok());
  const auto records = Verify({"public.t"});
  EXPECT_THAT(Found(records), IsEmpty());
  EXPECT_THAT(Ends(records), ElementsAre("public.t "));
}

TEST_F(VerifyTest, TheCommandSaysItAndEndsByIt) {  // proves A52
  SetUpPostgres();
  Exec({"create table t (id int primary key, note text)",
        "insert into t select i, 'note ' || i from generate_series(1, 10) i",
        "create table keyless (a int)", "alter table keyless replica identity full"});
  StartServer();
  CatchUp();
  const auto run = [&](const std::vector<std::string>& arguments) {
    const auto result = tidemark_->Run(arguments);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(CommandResult{});
  };
  const CommandResult equal = run({"verify", "main", "public.t"});
  EXPECT_EQ(equal.exit_code, 0) << equal.err;
  EXPECT_EQ(equal.out, "public.t: 10 rows compared, no difference\n");
  const CommandResult undecided = run({"verify", "main"});
  EXPECT_EQ(undecided.exit_code, 7) << undecided.err;
  EXPECT_THAT(undecided.out, HasSubstr("public.keyless: 0 rows compared, no difference; NOT "
                                       "COMPARED at all: TABLE_UNREADABLE: "));
  Corrupt();
  CatchUp();
  const CommandResult text = run({"verify", "main", "public.t"});
  EXPECT_EQ(text.exit_code, 6) << text.err;
  EXPECT_EQ(text.out,
            "public.t: missing {\"id\":2}\n"
            "public.t: different {\"id\":3} in note\n"
            "public.t: incomplete {\"id\":4}, not known: note\n"
            "public.t: extra {\"id\":9999}\n"
            "public.t: 11 rows compared, 1 missing, 1 extra, 1 different, 1 incomplete\n");
  const CommandResult jsonl = run({"verify", "main", "public.*", "--format", "jsonl"});
  EXPECT_EQ(jsonl.exit_code, 6) << jsonl.err;
  EXPECT_THAT(jsonl.out, HasSubstr(R"({"table":"public.t","kind":"different","key":{"id":3},)"
                                   R"("columns":["note"],"position":")"));
  EXPECT_THAT(jsonl.out,
              HasSubstr(R"({"table":"public.t","totals":{"rows_compared":11,"missing":1,)"
                        R"("extra":1,"different":1,"incomplete":1,"not_comparable":0,)"));
  EXPECT_THAT(jsonl.out, HasSubstr(R"("reason":"TABLE_UNREADABLE")"));
  const CommandResult unknown = run({"verify", "main", "public.nowhere"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("TABLE_UNKNOWN"));
  EXPECT_EQ(unknown.out, "");
  EXPECT_EQ(run({"verify", "elsewhere"}).exit_code, 1);
  EXPECT_EQ(run({"verify", "main", "Public.t"}).exit_code, 1);
  EXPECT_EQ(run({"verify", "main", "--format", "xml"}).exit_code, 2);
}

TEST_F(VerifyTest, RefusesTablesWithoutRows) {  // proves A52
  SetUpPostgres();
  Exec({"create table t (id int primary key, note text)", "insert into t values (1, 'x')",
        "create table off (id int primary key)", "insert into off values (1)",
        "create table removed (id int primary key)"});
  LiveTidemarkOptions options;
  options.feed_lines = {"rows_off: [public.off]"};
  StartServer(options);
  ASSERT_TRUE(RemoveTable("public.removed", false).ok());
  ASSERT_TRUE(WaitForState("public.removed", v1::TABLE_FOLLOW_STATE_REMOVED));
  const auto records = Verify({"public.off", "public.removed", "public.t"});
  EXPECT_TRUE(end_.ok());
  EXPECT_THAT(Ends(records),
              ElementsAre("public.off ROWS_NOT_KEPT", "public.removed TABLE_UNKNOWN", "public.t "));
  EXPECT_THAT(Found(records), IsEmpty());
}

// proves A52: no false difference, whatever is written meanwhile.
TEST_F(VerifyTest, EqualUnderWritersOverManyRounds) {
  SetUpPostgres();
  Exec({"create table big (id int primary key, v int, note text)",
        "insert into big select i, 0, repeat('n', 50) from generate_series(0, 4999) i"});
  StartServer();
  std::vector<std::unique_ptr<RowWriter>> writers;
  for (uint64_t seed : {7, 8, 9}) {
    writers.push_back(std::make_unique<RowWriter>(*postgres_, 5'000, seed));
  }
  uint64_t compared = 0, not_comparable = 0;
  const uint64_t rounds = IsLong() ? 20 : 4;
  for (uint64_t round = 0; round < rounds; ++round) {
    const int done = writers[0]->done();
    ASSERT_TRUE(WaitUntil([&] { return writers[0]->done() > done; }, kDeadline));
    const auto records = Verify({"public.big"});
    ASSERT_TRUE(end_.ok()) << end_.error_message();
    EXPECT_THAT(Found(records), IsEmpty()) << "round " << round;
    EXPECT_THAT(Ends(records), ElementsAre("public.big "));
    ASSERT_FALSE(records.empty());
    compared += records.back().totals().rows_compared();
    not_comparable += records.back().totals().not_comparable();
    EXPECT_GT(writers[0]->done(), done) << "writers went on";
  }
  for (auto& writer : writers) writer->Stop();
  EXPECT_GT(compared, rounds * 1'500);
  EXPECT_LT(not_comparable, compared / 100) << "few rows never rest";
  CatchUp();
  EXPECT_TRUE(Here("public.big") == There("public.big"));
}

// proves A52: updates that leave a large value out keep no table from being compared.
TEST_F(VerifyTest, LargeValuesThatUpdatesLeaveOut) {
  SetUpPostgres();
  Exec({"create table big (id int primary key, n int, large text)",
        "alter table big alter large set storage external",
        "insert into big select i, 0, repeat('x', 5000) from generate_series(1, 300) i"});
  StartServer();
  CatchUp();
  std::atomic<bool> stopping = false;
  std::atomic<int> updates = 0;
  std::thread writer([&] {
    auto session = postgres_->Connect();
    while (!stopping && session.ok()) {
      const int id = updates++ % 300 + 1;
      EXPECT_TRUE((*session)->Exec(fmt::format("update big set n = n + 1 where id = {}", id)).ok());
    }
  });
  for (int round = 0; round < 5; ++round) {
    const auto records = Verify({"public.big"});
    EXPECT_THAT(Found(records), IsEmpty());
    EXPECT_THAT(Ends(records), ElementsAre("public.big "));
    ASSERT_FALSE(records.empty());
    const v1::VerifyTotals& totals = records.back().totals();
    EXPECT_EQ(totals.rows_compared() + totals.not_comparable(), 300u) << totals.DebugString();
    EXPECT_GE(totals.rows_compared(), 280u) << totals.DebugString();
  }
  stopping = true;
  writer.join();
  EXPECT_GT(updates, 100);
}

// Of 30,000 rows the feed has none.
class ManyFindingsTest : public VerifyTest {
 protected:
  static constexpr size_t kRows = 30'000;
  void Prepare() {
    SetUpPostgres();
    Exec({"create table t (id int primary key, note text)",
          fmt::format("insert into t select i, repeat('n', 20) from generate_series(1, {}) i",
                      kRows)});
    StartServer();
    CatchUp();
    ASSERT_TRUE(tidemark_->Stop().ok());
    const absl::Status made =
        MakeChanges(*tidemark_, "t", [](uint64_t schema, capture::TransactionBuilder* builder) {
          builder->AddChange(v1::OP_TRUNCATE, schema, {});
        });
    ASSERT_TRUE(made.ok()) << made;
    StartServer();
    CatchUp();
  }
};

// proves A52: who does not read what was found holds nobody else up.
TEST_F(ManyFindingsTest, AClientThatDoesNotReadAndOneThatGoes) {
  Prepare();
  grpc::ClientContext first;
  const Reader reader = Call(&first, {"public.t"});
  v1::VerifyResponse record;
  ASSERT_TRUE(reader->Read(&record));
  // One at a time; capture goes on.
  Verify({"public.marker"});
  EXPECT_EQ(end_.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(end_.error_message(), HasSubstr("verified already"));
  CatchUp();
  uint64_t found = record.kind() == v1::DIFFERENCE_KIND_MISSING ? 1 : 0;
  while (reader->Read(&record)) {
    if (record.kind() == v1::DIFFERENCE_KIND_MISSING) ++found;
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(found, kRows) << "nothing was dropped";
  EXPECT_TRUE(record.last());
  EXPECT_EQ(record.totals().missing(), kRows);

  grpc::ClientContext second;
  const Reader gone = Call(&second, {"public.t"});
  ASSERT_TRUE(gone->Read(&record));
  second.TryCancel();
  EXPECT_EQ(gone->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(WaitUntil(
      [&] {
        Verify({"public.marker"});
        return end_.ok();
      },
      kDeadline, [&] { return end_.error_message(); }));
}

// proves A52: it is not stored, and what it looked at is as it was.
TEST_F(ManyFindingsTest, TheServerOrTheSourceGoesMeanwhile) {
  Prepare();
  grpc::ClientContext context;
  Reader reader = Call(&context, {"public.t"});
  v1::VerifyResponse record;
  ASSERT_TRUE(reader->Read(&record));
  tidemark_->Kill9();
  while (reader->Read(&record)) EXPECT_FALSE(record.last());
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  StartServer();
  CatchUp();

  grpc::ClientContext again;
  reader = Call(&again, {"public.t"});
  ASSERT_TRUE(reader->Read(&record));
  Exec({"select pg_terminate_backend(pid) from pg_stat_replication"});
  while (reader->Read(&record)) EXPECT_FALSE(record.last());
  const grpc::Status lost = reader->Finish();
  EXPECT_EQ(lost.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(lost.error_message(), HasSubstr("Run it again"));

  std::vector<v1::VerifyResponse> records;
  ASSERT_TRUE(WaitUntil(
      [&] {
        records = Verify({"public.t"});
        return end_.ok();
      },
      kDeadline, [&] { return end_.error_message(); }));
  EXPECT_EQ(Found(records).size(), kRows);
  const auto stopped = tidemark_->Stop();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(*stopped, 0);
}

// A server that stops does not wait for it.
TEST_F(ManyFindingsTest, TheServerStops) {
  Prepare();
  grpc::ClientContext context;
  const Reader reader = Call(&context, {"public.t"});
  v1::VerifyResponse record;
  ASSERT_TRUE(reader->Read(&record));
  const auto stopped = tidemark_->Stop();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(*stopped, 0);
  while (reader->Read(&record)) continue;
  EXPECT_FALSE(reader->Finish().ok());
}

}  // namespace
}  // namespace tidemark::testing
