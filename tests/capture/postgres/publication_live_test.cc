// What a real server publishes, read without opening a table: the same as its own view says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/table_catalog.h"
#include "capture/postgres/table_sighting.h"
#include "tests/capture/postgres/live_session.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kVersion18 = 180000;

class PublicationLiveTest : public LiveSession {
 protected:
  PublicationLiveTest() : LiveSession({.settings = {{"max_prepared_transactions", "5"}}}) {}

  void Exec(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done << " in " << sql;
  }

  Publication Read(const std::string& name) {
    auto publication = ReadPublication(sql_.get(), name, Deadline());
    EXPECT_TRUE(publication.ok()) << publication.status();
    if (!publication.ok() || !*publication) return {};
    return **publication;
  }
};

constexpr char kTables[] =
    "create schema a; create schema b;"
    "create table a.t (id int primary key); create unlogged table a.u (id int);"
    "create table b.t (id int primary key, g int, h int);"
    "create table a.root (id int, k int, primary key (id, k)) partition by list (k);"
    "create table a.root1 partition of a.root for values in (1);"
    "create table b.root2 partition of a.root for values in (2) partition by range (id);"
    "create table b.root2a partition of b.root2 for values from (0) to (10);"
    "create table a.root2b partition of b.root2 for values from (10) to (20);"
    "create table b.broot (id int, k int) partition by list (k);"
    "create table a.broot1 partition of b.broot for values in (1);"
    "create table a.parent (x int); create table b.child () inherits (a.parent);"
    "create view a.v as select 1";

// Whatever a publication is made of.
TEST_F(PublicationLiveTest, HoldsWhatTheServersViewSays) {
  Exec(kTables);
  const std::vector<std::string> forms = {
      "for all tables",
      "for all tables with (publish_via_partition_root)",
      "for table a.root, b.t, a.t",
      "for table a.root, b.t, b.root2a with (publish_via_partition_root)",
      "for table b.root2, a.root1 with (publish_via_partition_root)",
      "for table only b.t (id, h) where (id > 1), a.parent, a.root1",
      "for tables in schema a",
      "for tables in schema a with (publish_via_partition_root)",
      "for tables in schema b, table a.root1 with (publish_via_partition_root)",
      "with (publish = 'insert')"};
  for (const std::string& form : forms) {
    Exec("drop publication if exists p; create publication p " + form);
    std::vector<std::string> here, there;
    for (const SourceTable& table : Read("p").tables) here.push_back(table.Text());
    const auto rows = postgres_->Query(
        "select schemaname || '.' || tablename from pg_publication_tables where pubname = 'p' "
        "order by schemaname, tablename");
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (const auto& row : rows->rows) there.push_back(*row[0]);
    EXPECT_EQ(here, there) << form;
  }
}

TEST_F(PublicationLiveTest, SaysColumnsAndFilters) {
  Exec(kTables);
  Exec("create publication p for table b.t (h, id) where (id > 1), a.t");
  const std::vector<SourceTable> tables = Read("p").tables;
  ASSERT_THAT(tables, SizeIs(2));
  EXPECT_THAT(tables[0].columns, IsEmpty());
  EXPECT_EQ(ReadRowFilter(sql_.get(), tables[0], Deadline()).value(), "");
  EXPECT_THAT(tables[1].columns, ElementsAre("id", "h"));
  EXPECT_EQ(ReadRowFilter(sql_.get(), tables[1], Deadline()).value(), "(id > 1)");
  Exec("alter publication p set table b.t where (id > 2)");
  EXPECT_TRUE(absl::IsAborted(ReadRowFilter(sql_.get(), tables[1], Deadline()).status()));
}

// proves A29: nobody asked for a child of plain inheritance, and one without a key would refuse its
// updates once it is published.
TEST_F(PublicationLiveTest, IsMadeWithoutTheChildrenOfAParent) {
  Exec(kTables);
  const std::vector<TablePattern> wanted = {*TablePattern::Parse("a.parent"),
                                            *TablePattern::Parse("a.root")};
  const auto tables = ReadMatchingTables(sql_.get(), wanted, Deadline());
  ASSERT_TRUE(tables.ok()) << tables.status();
  Exec("alter table a.parent replica identity full");
  Exec(CreatePublicationSql("p", *tables));
  std::vector<std::string> published;
  for (const SourceTable& table : Read("p").tables) published.push_back(table.Text());
  EXPECT_THAT(published, ElementsAre("a.parent", "a.root"));
  Exec("insert into b.child values (1); update b.child set x = 2; delete from b.child");
}

// proves B014: wherever they hang below the root.
TEST_F(PublicationLiveTest, NamesPartitionsThatAreNotLogged) {
  Exec(kTables);
  Exec(
      "create foreign data wrapper w; create server s foreign data wrapper w;"
      "create unlogged table a.root3 partition of a.root for values in (3);"
      "alter table b.root2a set unlogged;"
      "create foreign table b.broot2 partition of b.broot for values in (2) server s;"
      "create publication p for table a.root, b.broot, b.t with (publish_via_partition_root)");
  const std::vector<SourceTable> tables = Read("p").tables;
  ASSERT_THAT(tables, SizeIs(3));
  EXPECT_EQ(UnloggedPartsText(tables[0].unlogged_parts),
            "a.root3 is UNLOGGED, b.root2a is UNLOGGED");
  EXPECT_EQ(UnloggedPartsText(tables[1].unlogged_parts), "b.broot2 is a foreign table");
  EXPECT_THAT(tables[2].unlogged_parts, IsEmpty());
  EXPECT_FALSE(CheckLogged(tables[0]).ok());
  EXPECT_TRUE(CheckLogged(tables[2]).ok());
  for (size_t i : {0, 1}) Exec(UnloggedPartsRemedy(tables[i].unlogged_parts));
  for (const SourceTable& table : Read("p").tables) {
    EXPECT_TRUE(CheckLogged(table).ok()) << CheckLogged(table);
  }
}

// Since 18 a publication may send them.
TEST_F(PublicationLiveTest, SaysWhetherGeneratedColumnsAreSent) {
  Exec("create table g (id int primary key, twice int generated always as (id * 2) stored)");
  const auto columns = [&](const std::string& form) {
    Exec("drop publication if exists p; create publication p for table g" + form);
    const auto described = DescribeTable(sql_.get(), Read("p").tables.at(0), Deadline());
    EXPECT_TRUE(described.ok()) << described.status();
    return described.ok() ? described->columns.size() : 0;
  };
  EXPECT_EQ(columns(""), 1u);
  EXPECT_EQ(columns(" (id)"), 1u);
  if (sql_->server_version() < kVersion18) return;
  EXPECT_EQ(columns(" with (publish_generated_columns = stored)"), 2u);
  EXPECT_EQ(columns(" (id, twice)"), 2u);
}

// proves B043: a lock that shuts everybody out of the tables is not waited for.
TEST_F(PublicationLiveTest, WaitsForNobodysLock) {
  Exec(kTables);
  Exec(
      "create publication p for table b.t where (id > 1), a.t, a.root with "
      "(publish_via_partition_root)");
  const std::vector<TablePattern> all = {*TablePattern::Parse("a.*"), *TablePattern::Parse("b.*")};
  const auto before = LookAtTables(sql_.get(), "p", all, Deadline());
  ASSERT_TRUE(before.ok()) << before.status();
  Exec(
      "begin; lock table a.t, b.t, a.root, b.broot, a.parent in access exclusive mode; prepare "
      "transaction 'held'");
  const auto look = LookAtTables(sql_.get(), "p", all, absl::Now() + absl::Seconds(5));
  EXPECT_TRUE(look.ok()) << look.status();
  Exec("rollback prepared 'held'");
  ASSERT_EQ(look->tables.size(), before->tables.size());
  for (size_t i = 0; i < look->tables.size(); ++i) {
    EXPECT_EQ(look->tables[i].facts.SerializeAsString(),
              before->tables[i].facts.SerializeAsString());
  }
}

}  // namespace
}  // namespace tidemark::capture::postgres
