// Replica identities as applications use and change them: what the log says stays right whatever
// happens, and where current rows cannot be kept the table says so while the others go on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "proto/reason.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/wait_until.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class IdentityChangesTest : public ::testing::Test {
 protected:
  void Start(const std::string& tables, std::vector<std::string> postgres_lines = {},
             std::vector<std::string> feed_lines = {}) {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Exec(tables + "create table other (id int primary key, a int);");
    // Whom a test may keep from reading a table.
    Exec(
        "create role reader login replication; grant all on database postgres to reader;"
        "grant select on all tables in schema public to reader");
    if (tables.find("create publication") == std::string::npos) {
      Exec("create publication tidemark_main for all tables");
    }
    LiveTidemarkOptions options;
    options.user = "reader";
    options.postgres_lines = std::move(postgres_lines);
    // What the stream says by itself, before the catalog is looked at again.
    options.postgres_lines.push_back("catalog_period: 1h");
    options.feed_lines = std::move(feed_lines);
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_, options);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_start()->mutable_snapshot();
    recording_ = std::make_unique<RecordedStream>("identities");
    subscriber_ = std::make_unique<LiveSubscriber>(tidemark_->address(), request, recording_.get());
    // Its rows are of now: what the test does from here on comes as changes.
    const auto opened = [&] {
      return !recording_->segments().empty() && !recording_->segments().back().events.empty();
    };
    ASSERT_TRUE(subscriber_->FollowUntil(opened, seconds(60))) << tidemark_->Diagnostics();
  }

  void Exec(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done << " in " << sql;
  }

  // The texts of the changes of everything that was committed until now, "op table row".
  std::vector<std::string> Changes() {
    marks_ += 1;
    EXPECT_TRUE(postgres_->Exec(fmt::format("insert into other values ({}, 0)", marks_)).ok());
    // A table that is read again may be told behind it.
    const auto has_mark = [&] {
      const auto seen = SeenTransactions(*recording_);
      return seen.ok() && std::any_of(seen->rbegin(), seen->rend(), [&](const auto& transaction) {
               if (transaction.changes.empty()) return false;
               const RecordedChange& last = transaction.changes.back();
               return last.table == "public.other" &&
                      last.columns.at("id") == std::to_string(marks_);
             });
    };
    EXPECT_TRUE(subscriber_->FollowUntil(has_mark, seconds(60))) << tidemark_->Diagnostics();
    std::vector<std::string> lines;
    const auto seen = SeenTransactions(*recording_);
    EXPECT_TRUE(seen.ok()) << seen.status();
    for (const RecordedTransaction& transaction : *seen) {
      for (const RecordedChange& change : transaction.changes) {
        if (change.table == "public.other") continue;
        std::string line = change.op + " " + DescribeColumns(change.columns);
        if (change.key_change) line = "key_change " + line;
        if (!change.before.empty()) line += " before " + DescribeColumns(change.before);
        lines.push_back(line);
      }
    }
    lines.erase(lines.begin(), lines.begin() + static_cast<long>(told_));
    told_ += lines.size();
    return lines;
  }

  v1::FeedStatus Status() {
    auto stub = v1::FeedAdmin::NewStub(
        grpc::CreateChannel(tidemark_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    EXPECT_TRUE(stub->GetStatus(&context, {}, &response).ok());
    return response.feeds_size() == 1 ? response.feeds(0) : v1::FeedStatus();
  }
  v1::TableDescription Describe(const std::string& table) {
    auto stub = v1::ChangeFeed::NewStub(
        grpc::CreateChannel(tidemark_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::DescribeFeedRequest request;
    request.set_feed("main");
    v1::DescribeFeedResponse response;
    EXPECT_TRUE(stub->DescribeFeed(&context, request, &response).ok());
    for (const v1::TableDescription& described : response.tables()) {
      if (described.table_schema().table_name() == table) return described;
    }
    ADD_FAILURE() << "no table " << table;
    return {};
  }
  // How a bootstrap of the tables ends: "" where it reaches the log.
  std::string Bootstrap(const std::string& table, FoldedRows* rows = nullptr) {
    RecordedStream recording("bootstrap of " + table);
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_start()->mutable_snapshot();
    request.mutable_filter()->add_tables("public." + table);
    LiveSubscriber subscriber(tidemark_->address(), request, &recording);
    subscriber.Connect();
    if (subscriber.ReadUntilLive(seconds(30))) {
      auto folded = Fold(recording);
      EXPECT_TRUE(folded.ok()) << folded.status();
      if (rows != nullptr && folded.ok()) *rows = *folded;
      return "";
    }
    return subscriber.end().error_message();
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
  std::unique_ptr<RecordedStream> recording_;
  std::unique_ptr<LiveSubscriber> subscriber_;
  int marks_ = 0;
  size_t told_ = 0;
};

// proves R43, B007, O1: the key is that of the index.
TEST_F(IdentityChangesTest, UsingAnIndex) {
  Start(
      "create table t (a int not null, b int not null, c text); create unique index t_b on t (b);"
      "alter table t replica identity using index t_b; insert into t values (0, 9, 'snapshot');");
  Exec("insert into t values (1, 10, 'x')");
  Exec("update t set b = 11 where b = 10");
  Exec("update t set c = 'y' where b = 11");
  FoldedRows rows;
  (void)Changes();
  EXPECT_EQ(Bootstrap("t", &rows), "");
  EXPECT_THAT(rows["public.t"], SizeIs(2));
  Exec("delete from t where b = 11");
  EXPECT_THAT(Changes(), ElementsAre("delete b='11'"));
  EXPECT_EQ(Bootstrap("t", &rows), "");
  EXPECT_THAT(rows["public.t"], SizeIs(1));
}

// proves R43, B009: no key, equal rows and NULLs: the log is right as a multiset, and the feed says
// that it keeps no rows.
TEST_F(IdentityChangesTest, AMultisetWithoutAKey) {
  Start(
      "create table t (a int, b text); alter table t replica identity full;"
      "insert into t values (7, 'snapshot'), (7, 'snapshot');");
  Exec("insert into t values (1, 'd'), (1, 'd'), (NULL, 'n')");
  Exec("delete from t where ctid = (select min(ctid) from t where a = 1)");
  Exec("update t set b = 'z' where a is null");
  Exec("delete from t where ctid = (select min(ctid) from t where a = 7)");
  (void)Changes();
  std::multiset<std::string> rows;
  const auto segment_rows = SeenTransactions(*recording_);
  ASSERT_TRUE(segment_rows.ok()) << segment_rows.status();
  const auto remove_one = [&](const Columns& row) {
    const auto found = rows.find(DescribeColumns(row));
    ASSERT_NE(found, rows.end()) << DescribeColumns(row);
    rows.erase(found);
  };
  for (const RecordedTransaction& transaction : *segment_rows) {
    for (const RecordedChange& change : transaction.changes) {
      if (change.table != "public.t") continue;
      if (change.op == "update" || change.op == "delete") remove_one(change.before);
      if (change.op != "delete") rows.insert(DescribeColumns(change.columns));
    }
  }
  EXPECT_THAT(rows, ElementsAre("a='1' b='d'", "a='7' b='snapshot'", "a=NULL b='z'"));
  const v1::TableDescription described = Describe("t");
  EXPECT_FALSE(described.rows_kept());
  ASSERT_THAT(described.notes(), SizeIs(1));
  EXPECT_THAT(described.notes(0), HasSubstr("no usable key"));
  EXPECT_THAT(Status().table_problems(), IsEmpty()) << "that is no problem";
}

// proves R43, R44, B011: every identity that a table may have, changed while its rows change.
TEST_F(IdentityChangesTest, AChangedIdentityIsSaidAndEverythingElseGoesOn) {
  Start(
      "create table t (id int primary key, code int not null unique, doc text);"
      "alter table t alter doc set storage external;"
      "insert into t values (1, 10, repeat('x', 5000)), (2, 20, 'short');");
  Exec("update t set code = 11 where id = 1");
  EXPECT_THAT(Changes(), ElementsAre(HasSubstr("update code='11' doc='xxx")));
  EXPECT_THAT(Status().table_problems(), IsEmpty());

  // Whole rows before: still the same identity.
  Exec("alter table t replica identity full");
  Exec("update t set code = 12 where id = 1");
  EXPECT_THAT(Changes(), ElementsAre(AllOf(HasSubstr("update code='12' doc='xxx"),
                                           HasSubstr("before code='11' doc='xxx"))));
  EXPECT_THAT(Status().table_problems(), IsEmpty());
  EXPECT_EQ(Bootstrap("t"), "");

  // Nobody reads the table again while it cannot be read.
  Exec("revoke select on t from reader");
  Exec("alter table t replica identity using index t_code_key");
  // Nothing says so before the table is written to.
  Exec("update t set id = 5 where code = 20");
  Exec("update t set code = 13 where code = 12");
  const std::vector<std::string> changes = Changes();
  ASSERT_THAT(changes, SizeIs(3));
  EXPECT_EQ(changes[0], "update code='20' doc='short' id='5'");
  EXPECT_EQ(changes[1], "key_change delete code='12'");
  EXPECT_EQ(changes[2], "key_change insert code='13' id='1'") << "what nobody knows is absent";
  const v1::FeedStatus status = Status();
  ASSERT_THAT(status.table_problems(), SizeIs(1));
  EXPECT_EQ(status.table_problems(0).table(), "public.t");
  EXPECT_EQ(status.table_problems(0).reason(), reason::kIdentityChanged);
  EXPECT_THAT(status.table_problems(0).message(), HasSubstr("from (id) to (code)"));
  EXPECT_FALSE(Describe("t").rows_kept());
  EXPECT_THAT(Describe("t").notes(), ElementsAre(status.table_problems(0).message()));
  EXPECT_THAT(Bootstrap("t"), HasSubstr("public.t are gone"));
  EXPECT_EQ(Bootstrap("other"), "");

  // It stays so over a restart, until the table is read again; the log goes on.
  tidemark_->Kill9();
  Exec("grant select on t to reader");
  Exec("delete from t where code = 13");
  ASSERT_TRUE(tidemark_->Start().ok());
  // The problem ends where the reading begins.
  ASSERT_TRUE(WaitUntil(
      [&] {
        const v1::FeedStatus now = Status();
        return now.table_problems().empty() &&
               std::all_of(now.tables().begin(), now.tables().end(), [](const auto& table) {
                 return table.state() == v1::TABLE_FOLLOW_STATE_FOLLOWED;
               });
      },
      seconds(60), [&] { return tidemark_->Diagnostics(); }));
  EXPECT_THAT(Changes(), ::testing::IsSupersetOf({"delete code='13'", "truncate ",
                                                  "read code='20' doc='short' id='5'"}));
  EXPECT_EQ(Bootstrap("t"), "");
}

// proves R43: the index of the identity is dropped: the source refuses updates, inserts go on, and
// what is known of the rows by the key that is gone is told anew as a whole.
TEST_F(IdentityChangesTest, ADroppedIdentityIndex) {
  Start(
      "create table t (b int not null, c text); create unique index t_b on t (b);"
      "alter table t replica identity using index t_b; insert into t values (1, 'x');");
  EXPECT_EQ(Bootstrap("t"), "");
  Exec("drop index t_b");
  EXPECT_FALSE(postgres_->Exec("update t set c = 'y'").ok());
  Exec("insert into t values (2, 'z')");
  std::vector<std::string> changes;
  const auto collect = [&] {
    for (std::string& change : Changes()) changes.push_back(std::move(change));
  };
  collect();
  EXPECT_THAT(changes, ::testing::Contains("insert b='2' c='z'"));
  ASSERT_TRUE(WaitUntil(
      [&] {
        collect();
        return std::find(changes.begin(), changes.end(), "truncate ") != changes.end();
      },
      seconds(60), [&] { return tidemark_->Diagnostics(); }));
  Exec("alter table t replica identity full");
  Exec("update t set c = 'w' where b = 2");
  collect();
  EXPECT_THAT(changes, ::testing::IsSupersetOf({"truncate ", "read b='1' c='x'", "read b='2' c='z'",
                                                "update b='2' c='w' before b='2' c='z'"}));
}

// What the stream announces while a look is under way is judged by another look: that one may have
// seen the catalog as it was before.
TEST_F(IdentityChangesTest, AnotherIndexWhileTheCatalogIsLookedAt) {
  Start(
      "create table t (b int not null, c int not null); create unique index t_b on t (b);"
      "create unique index t_c on t (c); alter table t replica identity using index t_b;"
      "insert into t values (1, 10);");
  EXPECT_EQ(Bootstrap("t"), "");
  // The look takes its snapshot before it comes to the partitions.
  auto holder = postgres_->Connect();
  ASSERT_TRUE(holder.ok()) << holder.status();
  ASSERT_TRUE((*holder)->Exec("begin; lock table pg_inherits in access exclusive mode").ok());
  EXPECT_THAT(Changes(), IsEmpty()) << "the other table is announced";
  const std::string waits =
      "select count(*) from pg_locks l join pg_stat_activity a using (pid) where not l.granted and "
      "l.relation = 'pg_inherits'::regclass and a.application_name like 'tidemark/%'";
  ASSERT_TRUE(
      WaitUntil([&] { return postgres_->QueryValue(waits).value_or("") == "1"; }, seconds(30)));
  Exec("alter table t replica identity using index t_c");
  Exec("insert into t values (2, 20)");
  EXPECT_THAT(Changes(), ElementsAre("insert b='2' c='20'"));
  ASSERT_THAT(Status().table_problems(), SizeIs(1));
  ASSERT_EQ(postgres_->QueryValue(waits).value_or(""), "1") << "the look is over";
  ASSERT_TRUE((*holder)->Exec("commit").ok());
  std::vector<std::string> changes;
  EXPECT_TRUE(WaitUntil(
      [&] {
        for (std::string& change : Changes()) changes.push_back(std::move(change));
        return changes.size() >= 3;
      },
      seconds(30), [&] { return tidemark_->Diagnostics(); }));
  EXPECT_THAT(changes, ElementsAre("truncate ", "read b='1' c='10'", "read b='2' c='20'"));
}

// A key that comes later does not tell the rows that were there before it.
TEST_F(IdentityChangesTest, AKeyMadeWhileRunning) {
  Start(
      "create table t (a int not null, b text); alter table t replica identity full;"
      "insert into t values (1, 'x');");
  Exec("revoke select on t from reader");
  Exec("alter table t add primary key (a)");
  Exec("insert into t values (2, 'y')");
  EXPECT_THAT(Changes(), ElementsAre("read a='1' b='x'", "insert a='2' b='y'"));
  ASSERT_THAT(Status().table_problems(), SizeIs(1));
  EXPECT_THAT(Status().table_problems(0).message(), HasSubstr("from none to (a)"));
  EXPECT_FALSE(Describe("t").rows_kept());
  FoldedRows rows;
  EXPECT_EQ(Bootstrap("t", &rows), "") << "the log still holds all of it";
}

// A renamed key column is the same key.
TEST_F(IdentityChangesTest, ARenamedKeyStaysTheKey) {
  Start("create table t (id int primary key, b text); insert into t values (1, 'x');");
  Exec("alter table t rename id to number");
  Exec("update t set b = 'y' where number = 1");
  Exec("insert into t values (2, 'z')");
  EXPECT_THAT(Changes(), ElementsAre("update b='y' number='1'", "insert b='z' number='2'"));
  EXPECT_THAT(Status().table_problems(), IsEmpty());
  FoldedRows rows;
  EXPECT_EQ(Bootstrap("t", &rows), "");
  // Where the rows are not folded yet, the first one comes under its old name before.
  rows["public.t"].erase("id='1'");
  EXPECT_THAT(rows["public.t"], SizeIs(2));
}

// proves B037, B053, O1: what a column list or a generated column leaves out is on neither path.
TEST_F(IdentityChangesTest, ColumnListsAndGeneratedColumns) {
  Start(
      "create table g (id int primary key, a int, b int generated always as (a * 2) stored, c "
      "text); insert into g values (1, 5, default, 'x');"
      "create table cl (id int primary key, a int, secret text);"
      "alter table cl alter secret set storage external;"
      "insert into cl values (1, 1, repeat('s', 5000));"
      "create table other_ (id int primary key);"
      "create publication tidemark_main for table g, cl (id, a), other_;",
      {"tables: ['public.g', 'public.cl', 'public.other_']"});
  Exec("update g set a = 6");
  Exec("update cl set secret = 't'");
  Exec("insert into other_ values (1)");
  const auto has_mark = [&] {
    const auto seen = SeenTransactions(*recording_);
    return seen.ok() && !seen->empty() && seen->back().changes[0].table == "public.other_";
  };
  ASSERT_TRUE(subscriber_->FollowUntil(has_mark, seconds(60))) << tidemark_->Diagnostics();
  const auto rows = Fold(*recording_);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at("public.g").begin()->second, (Columns{{"id", "1"}, {"a", "6"}, {"c", "x"}}));
  EXPECT_EQ(rows->at("public.cl").begin()->second, (Columns{{"id", "1"}, {"a", "1"}}));
  size_t updates = 0;
  const auto transactions = SeenTransactions(*recording_);
  ASSERT_TRUE(transactions.ok()) << transactions.status();
  for (const RecordedTransaction& transaction : *transactions) {
    for (const RecordedChange& change : transaction.changes) {
      EXPECT_EQ(change.columns.count("secret"), 0u);
      EXPECT_EQ(change.columns.count("b"), 0u);
      updates += change.op == "update" ? 1 : 0;
    }
  }
  EXPECT_EQ(updates, 2u);
}

// Before-images for tables that ask, whatever the source sends.
TEST_F(IdentityChangesTest, BeforeImagesFromCurrentRows) {
  Start(
      "create table t (id int primary key, a int, doc text);"
      "alter table t alter doc set storage external;"
      "create table plain (id int primary key, a int);"
      "insert into t values (1, 7, repeat('x', 3000)); insert into plain values (1, 7);",
      {}, {"before_images: ['public.t']"});
  Exec("update t set a = 8");
  Exec("begin; update t set id = 2; delete from t; commit");
  Exec("update plain set a = 8");
  const std::string doc = "doc='" + std::string(3000, 'x') + "'";
  EXPECT_THAT(Changes(),
              ElementsAre("update a='8' " + doc + " id='1' before a='7' " + doc + " id='1'",
                          "key_change delete id='1' before a='8' " + doc + " id='1'",
                          "key_change insert a='8' " + doc + " id='2'",
                          "delete id='2' before a='8' " + doc + " id='2'", "update a='8' id='1'"));
}

}  // namespace
}  // namespace tidemark::testing
