// Tables without a key: read again beside the stream as a truncate and all their rows, in one
// transaction, however they are changed meanwhile. Equal rows count.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

#include "tests/end_to_end/resident_memory.h"
#include "tests/end_to_end/statement_writer.h"
#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;
constexpr v1::TableFollowState kReading = v1::TABLE_FOLLOW_STATE_READING;

LiveTidemarkOptions Only(const std::string& tables) {
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [" + tables + "]"};
  return options;
}

// Equal rows, and rows of nothing but NULL.
std::string CreateSql(int rows, int note_bytes = 40, const std::string& name = "k") {
  return fmt::format(
      "create table {0} (a int, note text); alter table {0} replica identity full; insert into {0} "
      "select nullif(i % 50, 0), case when i % 3 > 0 then repeat('n', {1}) end from "
      "generate_series(1, {2}) i",
      name, note_bytes, rows);
}

// Changes rows of public.k at random, on a thread of its own.
class KeylessWriter : public StatementWriter {
 public:
  KeylessWriter(const LivePostgres& postgres, uint64_t seed)
      : StatementWriter(postgres, [random = std::mt19937_64(seed)](int) mutable {
          return Statement(&random);
        }) {}

 private:
  static std::string Statement(std::mt19937_64* random) {
    const auto below = [random](int bound) {
      return static_cast<int>((*random)() % static_cast<uint64_t>(bound));
    };
    const std::string some = fmt::format(
        "ctid = any(array(select ctid from k where a = {} limit {}))", below(60), 1 + below(3));
    switch (below(8)) {
      case 0:
      case 1:
        return fmt::format("insert into k values ({0}, 'w'), ({0}, 'w'), (null, null)", below(60));
      case 2:
        return "delete from k where " + some;
      case 3:
        return "delete from k where ctid = any(array(select ctid from k where a is null limit 2))";
      case 4:
        return fmt::format(
            "begin; update k set a = {} where {}; savepoint s; delete from k where "
            "a = {}; rollback to s; commit",
            below(60), some, below(60));
      case 5:
        return "begin; delete from k where " + some + "; rollback";
      default:
        return fmt::format("update k set note = 'w{}' where {}", below(5), some);
    }
  }
};

class KeylessTableTest : public TableFixture {
 protected:
  // The transactions that tell public.k anew, and are whole. The initial snapshot empties nothing.
  std::vector<RecordedTransaction> Made() {
    std::vector<RecordedTransaction> made;
    auto transactions = SeenTransactions(stream_);
    EXPECT_TRUE(transactions.ok()) << transactions.status();
    for (RecordedTransaction& one : *transactions) {
      const bool is_made = one.position.substr(one.position.size() - 8) != "00000000";
      if (is_made && one.changes.front().op == "truncate") made.push_back(std::move(one));
    }
    return made;
  }
  // A truncate, then all rows, then what was changed since.
  static void CheckMade(const RecordedTransaction& made) {
    EXPECT_EQ(made.source_transaction_id, "");
    size_t behind_rows = 0;
    for (size_t i = 0; i < made.changes.size(); ++i) {
      const RecordedChange& change = made.changes[i];
      EXPECT_EQ(change.table, "public.k");
      EXPECT_EQ(change.sequence, i);
      EXPECT_EQ(change.op == "truncate", i == 0);
      if (i > 0 && change.op != "read") ++behind_rows;
      EXPECT_FALSE(change.op == "read" && behind_rows > 0);
    }
  }
  ::testing::AssertionResult WaitUntilMade(size_t count) {
    return WaitUntil(
        [&] {
          CatchUp();
          return Made().size() >= count;
        },
        kDeadline,
        [&] { return StatusOf("public.k").ShortDebugString() + tidemark_->Diagnostics(); });
  }

  void ExpectEqual() {
    CatchUp();
    EXPECT_TRUE(Here("public.k") == There("public.k"))
        << Here("public.k").size() << " rows here, " << There("public.k").size() << " there";
    for (const RecordedTransaction& made : Made()) CheckMade(made);
  }
};

// proves B009, H4, A48
TEST_F(KeylessTableTest, ReadAgainUnderWritersItIsExactEachTime) {
  const size_t rounds = IsLong() ? 8 : 4;
  SetUpPostgres();
  Exec({CreateSql(4000)});
  StartServer();
  CatchUp();
  std::vector<std::unique_ptr<KeylessWriter>> writers;
  for (size_t round = 1; round <= rounds; ++round) {
    for (uint64_t seed : {1, 2, 3}) {
      writers.push_back(
          std::make_unique<KeylessWriter>(*postgres_, SeedFromEnvironment() + 10 * round + seed));
    }
    ASSERT_TRUE(StartSnapshot("public.k").ok());
    ASSERT_TRUE(WaitUntilMade(round));
    writers.clear();
    ExpectEqual();
  }
  EXPECT_EQ(StatusOf("public.k").state(), kFollowed);
}

// proves B065, B009
TEST_F(KeylessTableTest, AddedWhileRunningItComesWhole) {
  SetUpPostgres();
  Exec({CreateSql(20'000)});
  StartServer(Only("public.marker"));
  std::vector<std::unique_ptr<KeylessWriter>> writers;
  for (uint64_t seed : {4, 5}) {
    writers.push_back(std::make_unique<KeylessWriter>(*postgres_, seed));
  }
  ASSERT_TRUE(AddTable("public.k").ok());
  ASSERT_TRUE(WaitForState("public.k", kFollowed, "new to the feed"));
  writers.clear();
  ExpectEqual();
  EXPECT_EQ(Made().size(), 1u);
  const v1::TableStatus status = StatusOf("public.k");
  EXPECT_GT(status.rows_read(), 1000u);
  EXPECT_GT(status.changes_made(), status.rows_read()) << "the truncate counts";
  EXPECT_FALSE(status.has_error());
}

// What a transaction wrote before the table was published is never sent.
TEST_F(KeylessTableTest, WritersFromBeforeItWasPublishedAreWaitedFor) {  // proves H4
  SetUpPostgres();
  Exec({CreateSql(10)});
  StartServer(Only("public.marker"));
  auto writer = postgres_->Connect();
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Exec("begin; insert into k values (7, 'early')").ok());
  ASSERT_TRUE(AddTable("public.k").ok());
  ASSERT_TRUE(WaitForState("public.k", kReading, "waiting for transaction"));
  ASSERT_TRUE((*writer)->Exec("insert into k values (7, 'late'); commit").ok());
  ASSERT_TRUE(WaitForState("public.k", kFollowed, "new to the feed"));
  ExpectEqual();
}

// proves B021: staged and swapped by a rename, under writers.
TEST_F(KeylessTableTest, SwappedByARename) {
  SetUpPostgres();
  Exec({CreateSql(3000)});
  StartServer(Only("public.k, public.marker"));
  CatchUp();
  KeylessWriter writer(*postgres_, 6);
  for (int round = 0; round < 3; ++round) {
    Exec({"drop table if exists out", CreateSql(2000 + round, 40, "stage"),
          "insert into stage select * from k where a < 20",
          "begin; alter table k rename to out; alter table stage rename to k; commit"});
    ASSERT_TRUE(WaitUntilSettled("public.k"));
  }
  writer.Stop();
  ExpectEqual();
  EXPECT_GE(Made().size(), 3u);
}

// proves B017, B019, B015: and so are rewrites, and rows that come and go with partitions.
TEST_F(KeylessTableTest, RowsThatMoveWithoutAMessage) {
  SetUpPostgres();
  Exec({"create table k (a int, note text) partition by list (a)",
        "create table k1 partition of k for values in (1)",
        "create table k2 partition of k for values in (2, null)",
        "alter table k replica identity full; alter table k1 replica identity full; "
        "alter table k2 replica identity full",
        "insert into k values (1, 'x'), (1, 'x'), (2, 'y'), (null, null), (null, null)",
        "create table r (v int)", "alter table r replica identity full",
        "insert into r values (1), (1), (null)"});
  StartServer();
  CatchUp();
  Exec({"alter table k detach partition k2", "alter table r alter v type bigint using v + 1",
        "alter table r add column w int default 5"});
  for (const char* table : {"public.k", "public.r"}) {
    ASSERT_TRUE(WaitUntilSettled(table));
    CatchUp();
    EXPECT_EQ(Here(table), There(table));
  }
  EXPECT_THAT(Here("public.k"), ElementsAre("a='1' note='x'", "a='1' note='x'"));
  EXPECT_THAT(Here("public.r"), ElementsAre("v='2' w='5'", "v='2' w='5'", "v=NULL w='5'"));
}

// proves B007: and it is known by its rows again once it has one.
TEST_F(KeylessTableTest, ATableThatLosesItsKeyAndGetsOne) {
  SetUpPostgres();
  Exec({"create table k (a int primary key, note text)",
        "insert into k values (1, 'x'), (2, 'y'), (3, null)"});
  StartServer();
  CatchUp();
  Exec({"alter table k drop constraint k_pkey", "alter table k replica identity full",
        "update k set note = 'z' where a = 2", "insert into k values (1, 'x')"});
  ASSERT_TRUE(WaitForState("public.k", kFollowed, "other columns"));
  ExpectEqual();
  EXPECT_EQ(Made().size(), 1u);
  EXPECT_THAT(StatusOfFeed().table_problems(), IsEmpty());
  Exec({"delete from k where ctid = (select min(ctid) from k where a = 1)",
        "alter table k add primary key (a)"});
  ASSERT_TRUE(WaitUntilSettled("public.k"));
  Exec({"update k set note = 'by key' where a = 3"});
  CatchUp();
  EXPECT_EQ(Here("public.k"), There("public.k"));
  const auto verified = tidemark_->Run({"verify", "main", "public.k"});
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->exit_code, 0) << verified->out << verified->err;
}

// Without a replica identity, and published all the same: inserts only.
TEST_F(KeylessTableTest, OneThatTakesInsertsOnly) {
  SetUpPostgres();
  Exec({"create table k (a int, note text)", "insert into k values (1, null), (1, null)",
        "create publication tidemark_main for table k, marker"});
  StartServer(Only("public.k, public.marker"));
  CatchUp();
  for (size_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(StartSnapshot("public.k").ok());
    Exec({"insert into k values (2, 'more')", "insert into k values (2, 'more')"});
    ASSERT_TRUE(WaitUntilMade(round));
    ExpectEqual();
  }
}

// proves R38, S37: killed anywhere, a reading is told once and whole, or begins again.
TEST_F(KeylessTableTest, KilledWhileItIsReadAndTold) {
  constexpr int kRows = 30'000;  // about twenty pieces
  SetUpPostgres();
  Exec({CreateSql(kRows, 150)});
  StartServer();
  CatchUp();
  KeylessWriter writer(*postgres_, 7);
  // What was ordered is told once at most, however often it began.
  size_t ordered = 0;
  for (const std::string step : {"read:4", "read:9", "appended:2", "synced:1", "synced:3",
                                 "published:1", "published:3", "confirmed:2"}) {
    SCOPED_TRACE(step);
    if (StatusOf("public.k").state() != kReading) {
      ASSERT_TRUE(StartSnapshot("public.k").ok());
      ++ordered;
      ASSERT_TRUE(WaitUntil(
          [&] {
            const v1::TableStatus status = StatusOf("public.k");
            return status.state() == kReading || status.detail() == "it was asked for";
          },
          kDeadline));
    }
    tidemark_->Kill9();
    ASSERT_TRUE(tidemark_->Launch({"--crash-at", step}).ok());
    ASSERT_TRUE(tidemark_->process().WaitForExit(kDeadline).ok());
    StartServer();
    CatchUp();
    ASSERT_FALSE(HasFatalFailure());
  }
  ASSERT_TRUE(WaitUntilSettled("public.k"));
  writer.Stop();
  ExpectEqual();
  EXPECT_LE(Made().size(), ordered);
  tidemark_->Kill9();
  EXPECT_TRUE(tidemark_->VerifyStore().ok());
}

// proves R38: at any moment, again and again.
TEST_F(KeylessTableTest, KilledAtAnyMoment) {
  SetUpPostgres();
  Exec({CreateSql(60'000, 150)});
  StartServer(Only("public.marker"));
  KeylessWriter writer(*postgres_, 8);
  ASSERT_TRUE(AddTable("public.k").ok());
  for (uint64_t kill = 1; kill <= 4; ++kill) {
    // Later and later within it.
    ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.k").rows_read() > kill * 8000; }, kDeadline,
                          [&] { return StatusOf("public.k").ShortDebugString(); }));
    tidemark_->Kill9();
    StartServer();
    CatchUp();
    ASSERT_FALSE(HasFatalFailure());
  }
  ASSERT_TRUE(WaitForState("public.k", kFollowed, "new to the feed"));
  writer.Stop();
  ExpectEqual();
  EXPECT_EQ(Made().size(), 1u);
}

// proves S38, B055: behind a lost slot, told anew in the next generation.
TEST_F(KeylessTableTest, HealedBehindALostSlot) {
  SetUpPostgres();
  Exec({CreateSql(5000)});
  LiveTidemarkOptions options;
  options.feed_lines = {"recovery: resnapshot"};
  StartServer(options);
  CatchUp();
  tidemark_->Kill9();
  ASSERT_TRUE(WaitUntil(
      [&] {
        return postgres_->QueryValue("select count(*) from pg_replication_slots where active")
                   .value_or("") == "0";
      },
      kDeadline));
  Exec({"delete from k where a < 10", "insert into k values (null, 'missed'), (null, 'missed')",
        "select pg_drop_replication_slot('tidemark_main')"});
  KeylessWriter writer(*postgres_, 9);
  StartServer();
  ASSERT_TRUE(WaitForState("public.k", kFollowed, "healed"));
  writer.Stop();
  ExpectEqual();
  ASSERT_EQ(Made().size(), 1u);
  EXPECT_EQ(Made().back().position.substr(0, 8), "00000002");
}

// Counts of equal rows of public.k, as a consumer has them, without holding the changes.
class KeylessCounts {
 public:
  using Counts = std::map<std::string, int64_t>;

  grpc::Status ReadUpToNow(const std::string& server) {
    const auto stub =
        v1::ChangeFeed::NewStub(grpc::CreateChannel(server, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_filter()->add_tables("public.k");
    request.mutable_start()->mutable_earliest();
    request.mutable_until()->mutable_now();
    auto reader = stub->Subscribe(&context, request);
    v1::SubscribeResponse record;
    while (reader->Read(&record)) {
      for (const v1::Transaction& part : record.batch().transactions()) {
        const bool is_made = part.origin() == v1::ORIGIN_SNAPSHOT;
        for (const v1::Run& run : part.runs()) {
          for (const v1::Change& change : run.changes()) Apply(change, is_made);
        }
      }
    }
    return reader->Finish();
  }
  // The notes are repetitions of one letter.
  static std::string Text(const std::string& a, const std::string& letter, size_t bytes) {
    return fmt::format("{} {} {}", a, letter, bytes);
  }

  const Counts& counts() const { return counts_; }
  uint64_t reads() const { return reads_; }
  // Told once more behind the rows.
  uint64_t unseen() const { return unseen_; }
  uint64_t nothing_to_remove() const { return nothing_to_remove_; }

 private:
  void Apply(const v1::Change& change, bool is_made) {
    if (change.op() == v1::OP_TRUNCATE) {
      counts_.clear();
      nothing_to_remove_ = 0;
      return;
    }
    if (is_made) ++(change.op() == v1::OP_READ ? reads_ : unseen_);
    if (change.before_size() > 0) {
      const auto found = counts_.find(TextOf(change.before()));
      if (found == counts_.end()) {
        ++nothing_to_remove_;
      } else if (--found->second == 0) {
        counts_.erase(found);
      }
    }
    if (change.after_size() > 0) ++counts_[TextOf(change.after())];
  }
  static std::string TextOf(const google::protobuf::RepeatedPtrField<v1::Value>& row) {
    const std::string& note = row[1].text();
    return Text(row[0].has_integer() ? std::to_string(row[0].integer()) : "null", note.substr(0, 1),
                note.size());
  }

  Counts counts_;
  uint64_t reads_ = 0;
  uint64_t unseen_ = 0;
  uint64_t nothing_to_remove_ = 0;
};

// proves R30: memory does not grow with the table, nor with what is changed meanwhile.
TEST_F(KeylessTableTest, ALargeOneIsReadInBoundedMemory) {
  constexpr int kRows = 100'000;
  constexpr int kNoteBytes = 2400;  // 160 MB
  constexpr double kGrowthMaxMiB = 128;
  SetUpPostgres();
  Exec({CreateSql(kRows, kNoteBytes)});
  StartServer(Only("public.marker"));
  const double before = ResidentMiB(tidemark_->process().pid(), "VmRSS");
  // Each looks at all rows: more of them would leave the machine nothing to read with.
  StatementWriter writer(
      *postgres_,
      [](int) {
        return "insert into k select 99, repeat('w', 900) from generate_series(1, 100); "
               "delete from k where ctid = any(array(select ctid from k where a = 99 limit 80))";
      },
      std::chrono::milliseconds(50));
  EXPECT_TRUE(AddTable("public.k").ok());
  EXPECT_TRUE(WaitForState("public.k", kFollowed, "new to the feed"));
  writer.Stop();
  const double growth = ResidentMiB(tidemark_->process().pid(), "VmHWM") - before;
  KeylessCounts here;
  const grpc::Status ended = here.ReadUpToNow(tidemark_->address());
  ASSERT_TRUE(ended.ok()) << ended.error_message();
  const auto rows = postgres_->Query(
      "select coalesce(a::text, 'null'), coalesce(left(note, 1), ''), coalesce(length(note), 0), "
      "count(*) from k group by 1, 2, 3");
  ASSERT_TRUE(rows.ok()) << rows.status();
  KeylessCounts::Counts there;
  for (const auto& row : rows->rows) {
    there[KeylessCounts::Text(*row[0], *row[1], std::stoull(*row[2]))] = std::stoll(*row[3]);
  }
  EXPECT_EQ(here.counts(), there);
  EXPECT_EQ(here.nothing_to_remove(), 0u);
  EXPECT_GE(here.reads(), static_cast<uint64_t>(kRows));
  std::cout << fmt::format("{} rows, {} changes meanwhile; {:.0f} MiB more\n", here.reads(),
                           here.unseen(), growth);
  EXPECT_GT(here.unseen(), 1200u) << "hardly more than is held in memory";
  EXPECT_LE(growth, kGrowthMaxMiB);
}

// What a consumer of lines is given of it.
TEST_F(KeylessTableTest, TailAndExportTellTheTruncate) {
  SetUpPostgres();
  Exec({"create table k (a int, note text)", "alter table k replica identity full",
        "insert into k values (1, 'x'), (1, 'x'), (null, null)"});
  StartServer();
  ASSERT_TRUE(StartSnapshot("public.k").ok());
  ASSERT_TRUE(WaitUntilMade(1));
  Exec({"delete from k where a is null"});
  CatchUp();
  const std::vector<std::string> range = {"--from", "earliest", "--until",
                                          "now",    "--tables", "public.k"};
  std::vector<std::string> tail = {"tail", "main", "--format", "jsonl"};
  tail.insert(tail.end(), range.begin(), range.end());
  const auto told = tidemark_->Run(tail);
  ASSERT_TRUE(told.ok()) << told.status();
  ASSERT_EQ(told->exit_code, 0) << told->err;
  std::vector<std::string> ops;
  std::istringstream lines(told->out);
  for (std::string line; std::getline(lines, line);) {
    ops.push_back(line.substr(9, line.find('"', 9) - 9));
  }
  // The snapshot, the same told anew, and what came behind it.
  EXPECT_THAT(ops,
              ElementsAre("read", "read", "read", "truncate", "read", "read", "read", "delete"));
  EXPECT_THAT(told->out, HasSubstr(R"("__before":{"a":null,"note":null})"));
  const std::filesystem::path file = tidemark_->scratch_dir() / "k.jsonl";
  std::vector<std::string> exported = {"export", "main", "--out", file.string()};
  exported.insert(exported.end(), range.begin(), range.end());
  const auto done = tidemark_->Run(exported);
  ASSERT_TRUE(done.ok()) << done.status();
  ASSERT_EQ(done->exit_code, 0) << done->err;
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(text.str(), told->out);
}

}  // namespace
}  // namespace tidemark::testing
