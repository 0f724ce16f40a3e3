#include "tests/testing/sql_oracle.h"

#include <gtest/gtest.h>

#include "tests/testing/live_postgres.h"

namespace tidemark::testing {
namespace {

const TableKeys kKeys = {{"public.t", {"id"}}};

std::string Parsed(std::string_view line) {
  const auto changes = ParseDecodedLine(line, kKeys);
  if (!changes.ok()) return changes.status().ToString();
  std::string text;
  for (const OracleChange& change : *changes) {
    if (!text.empty()) text += "; ";
    text += change.op + " " + change.table + " " + DescribeColumns(change.columns);
  }
  return text;
}

TEST(SqlOracleTest, ParsesWhatTestDecodingPrints) {
  EXPECT_EQ(Parsed("table public.t: INSERT: id[integer]:1 v[text]:'it''s\nnew-tuple: x'"),
            "insert public.t id='1' v='it's\nnew-tuple: x'");
  EXPECT_EQ(Parsed("table public.t: UPDATE: id[integer]:1 a[integer[]]:'{1,2}' v[text]:null"),
            "update public.t a='{1,2}' id='1' v=NULL");
  EXPECT_EQ(Parsed("table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 "
                   "big[text]:unchanged-toast-datum"),
            "delete public.t id='1'; insert public.t id='2'");
  EXPECT_EQ(Parsed("table public.t: UPDATE: old-key: id[integer]:1 v[text]:'a' new-tuple: "
                   "id[integer]:1 v[text]:'b'"),
            "update public.t id='1' v='b'");
  EXPECT_EQ(Parsed("table public.t: DELETE: id[integer]:1"), "delete public.t id='1'");
  EXPECT_EQ(Parsed("table public.t: DELETE: (no-tuple-data)"), "delete public.t ");
  EXPECT_EQ(Parsed("table public.t, \"S.x\".\"T\"\"y\": TRUNCATE: (no-flags)"),
            "truncate public.t ; truncate S.x.T\"y ");
  EXPECT_EQ(Parsed("table public.t: INSERT: ok[boolean]:true bits[bit varying]:B'101'"),
            "insert public.t bits='101' ok='true'");
}

TEST(SqlOracleTest, RefusesWhatItDoesNotUnderstand) {
  for (const char* line : {"", "table public.t", "table public.t: MERGE: id[integer]:1",
                           "table public.t: INSERT: id[integer]:'1", "message: x"}) {
    EXPECT_FALSE(ParseDecodedLine(line, kKeys).ok()) << line;
  }
  EXPECT_FALSE(ParseLsn("0").ok());
  EXPECT_FALSE(ParseLsn("0/1x").ok());
  EXPECT_EQ(*ParseLsn("1/A0"), 0x1000000A0u);
}

TEST(SqlOracleTest, TellsCommitsOfARealDatabaseInOrder) {
  auto postgres = LivePostgres::Create();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  ASSERT_TRUE((*postgres)
                  ->Exec("create table t (id int primary key, v text); create table u (a int)")
                  .ok());
  auto oracle = SqlOracle::Create((*postgres)->conninfo(), "oracle");
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  auto early = (*postgres)->Connect();
  ASSERT_TRUE(early.ok()) << early.status();
  ASSERT_TRUE((*early)->Exec("begin").ok());
  ASSERT_TRUE((*early)->Exec("insert into t values (1, 'begun first')").ok());
  ASSERT_TRUE((*postgres)->Exec("insert into t values (2, 'committed first')").ok());
  ASSERT_TRUE((*early)->Exec("commit").ok());
  ASSERT_TRUE((*postgres)->Exec("insert into u values (1)").ok());
  ASSERT_TRUE((*postgres)->Exec("update t set id = 3 where id = 2").ok());

  auto all = (*oracle)->Transactions();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->size(), 4u);
  ASSERT_TRUE((*postgres)->Restart(StopMode::kImmediate).ok());
  ASSERT_TRUE((*postgres)->Exec("delete from t where id = 1").ok());
  all = (*oracle)->Transactions();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->size(), 5u);

  const auto kept = OnlyTables(*std::move(all), {"public.t"});
  std::string text;
  uint64_t last = 0;
  for (const OracleTransaction& transaction : kept) {
    EXPECT_GT(transaction.end_lsn, last);
    last = transaction.end_lsn;
    for (const OracleChange& change : transaction.changes) {
      text += change.op + " " + DescribeColumns(change.columns) + "\n";
    }
  }
  EXPECT_EQ(text,
            "insert id='2' v='committed first'\n"
            "insert id='1' v='begun first'\n"
            "delete id='2'\n"
            "insert id='3' v='committed first'\n"
            "delete id='1'\n");
}

}  // namespace
}  // namespace tidemark::testing
