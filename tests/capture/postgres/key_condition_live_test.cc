// Rows asked for by their keys, at a real server.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "capture/postgres/connection.h"
#include "capture/postgres/key_condition.h"
#include "capture/postgres/table_catalog.h"
#include "tests/capture/postgres/live_session.h"

namespace tidemark::capture::postgres {
namespace {

class KeyConditionLiveTest : public LiveSession {
 protected:
  // The numbers of the rows of public.t that have one of the keys, where `columns` are its key.
  std::string Found(const std::string& columns, const std::string& key,
                    const std::vector<KeyTexts>& keys) {
    const absl::Status made = postgres_->Exec(fmt::format(
        "drop table if exists t; create table t (n serial, {0}, primary key ({1})); insert into t "
        "({1}) select {1} from unnest(array['a', 'B', 'c'], array[1, 2, 3]) s(k, i)",
        columns, key));
    if (!made.ok()) return made.ToString();
    const auto oid = postgres_->QueryValue("select 't'::regclass::oid");
    const SourceTable table{
        .oid = static_cast<uint32_t>(std::stoul(*oid)), .schema = "public", .table = "t"};
    const auto description = DescribeTable(sql_.get(), table, Deadline());
    if (!description.ok()) return description.status().ToString();
    TypeCatalog types;
    auto relation = ReadRelation(sql_.get(), *description, {}, &types, Deadline());
    if (!relation.ok()) return relation.status().ToString();
    relation->description = *description;
    const auto rows =
        sql_->Query("SELECT string_agg(n::text, ' ' ORDER BY n) FROM public.t WHERE " +
                        WithKeys(keys, *relation),
                    "asking by key", Deadline());
    return rows.ok() ? rows->Text(0, 0) : rows.status().ToString();
  }
};

TEST_F(KeyConditionLiveTest, FindsTheRowsOfEachKeyByTheOrderOfItsType) {
  const std::vector<KeyTexts> one = {{"b"}, {"c"}, {"x"}};
  EXPECT_EQ(Found("k text", "k", one), "3");
  EXPECT_EQ(Found("k text, i int", "k, i", {{"B", "2"}, {"c", "4"}}), "2");
  ASSERT_TRUE(postgres_
                  ->Exec("create schema ext; create extension citext schema ext;"
                         "create domain name_of_one as ext.citext")
                  .ok());
  EXPECT_EQ(Found("k text", "k", one), "3") << "beside a type with an order of its own";
  EXPECT_EQ(Found("k ext.citext", "k", one), "2 3");
  EXPECT_EQ(Found("k name_of_one", "k", one), "2 3");
  EXPECT_EQ(Found("k ext.citext, i int", "k, i", {{"b", "2"}, {"C", "4"}, {"A", "1"}}), "1 2");
}

}  // namespace
}  // namespace tidemark::capture::postgres
