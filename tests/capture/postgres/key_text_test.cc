// Stored keys, as PostgreSQL takes them back.
#include "capture/postgres/key_text.h"

#include <gtest/gtest.h>

#include "capture/postgres/sql_text.h"
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture::postgres {
namespace {

class KeyTextTest : public PostgresFixture {};

// proves B077: whatever the type of a key, its rows are found by what is stored of it.
TEST_F(KeyTextTest, FindsTheRowThatItCameFrom) {
  ExecEach(
      {"CREATE TYPE mood AS ENUM ('sad', 'ha''p\"py')", "CREATE TYPE pair AS (a int, b text)",
       "CREATE TABLE t (id int PRIMARY KEY, i bigint, f float8, g float4, n numeric, b bool, s "
       "text, c char(4), y bytea, d date, ts timestamp, tz timestamptz, tm time, iv interval, "
       "u uuid, e mood, a int[], at text[], p pair, r int4range)",
       "INSERT INTO t VALUES (1, -9223372036854775808, 0.1::float8 + 0.2, 0.1, 1.50, true, "
       "E'it''s \\\\ \"1\"\\n', 'ab', '\\x00ff', '0044-03-15 BC', '2021-03-28 02:30:00.000001', "
       "'2021-03-28 02:30+02', '04:05:06.789', '1 year 2 mons -3 days 04:05:06.789', "
       "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ha''p\"py', '[2:3]={1,NULL}', "
       "'{\"a b\",NULL,\"\\\"\",\"\"}', '(1,\"x,\\\"y\")', '[1,5)')",
       "INSERT INTO t VALUES (2, 7, '-Infinity', 'NaN', 'NaN', false, '', '', '', 'infinity', "
       "'-infinity', 'infinity', '24:00', '-1 mon', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', "
       "'sad', '{{1,2},{3,4}}', '{}', '(,)', 'empty')"});
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  ASSERT_EQ(driver.snapshot_rows.size(), 2u);
  for (const SeenChange& row : driver.snapshot_rows) {
    for (int i = 1; i < row.schema.columns_size(); ++i) {
      const std::string& column = row.schema.columns(i).name();
      const std::string text = InputText(row.change.after(i));
      EXPECT_EQ(Value("SELECT id FROM t WHERE " + column + " = " + QuoteLiteral(text) +
                      "::" + row.schema.columns(i).source_type()),
                std::to_string(row.change.after(0).integer()))
          << column << " by " << text;
    }
  }
}

}  // namespace
}  // namespace tidemark::capture::postgres
