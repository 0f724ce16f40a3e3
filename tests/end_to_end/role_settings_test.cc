// A whole server on a role whose settings would change every text: the snapshot, the stream, chunks
// beside it and a verification say the same of every row.
#include <gmock/gmock.h>

#include "tests/end_to_end/table_fixture.h"

namespace tidemark::testing {
namespace {

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;

class RoleSettingsTest : public TableFixture {};

std::string RowsSql(const std::string& table, int from, int to) {
  return fmt::format(
      "insert into {} select '2021-03-27'::timestamptz + i * interval '1 minute', 0.1::float8 + i "
      "/ 3.0::float8, decode(lpad(to_hex(i), 8, '0'), 'hex'), i * interval '1 month -2 days 3.5 "
      "s', '2021-02-03'::date + i, i::numeric::money, 'marker', 'marker' from generate_series({}, "
      "{}) i",
      table, from, to);
}

// Keys whose text and order depend on settings, in more rows than one chunk holds.
// proves R52, B039, A52
TEST_F(RoleSettingsTest, SnapshotStreamAndChunksSayTheSame) {
  SetUpPostgres();
  constexpr char kColumns[] =
      "(at timestamptz, f float8, b bytea, i interval, d date, m money, r regclass, y regtype, "
      "primary key (at, f, b))";
  Exec({std::string("create table v ") + kColumns, std::string("create table w ") + kColumns,
        RowsSql("v", 1, 2500), RowsSql("w", 1, 2500),
        "create publication tidemark_main for table v, marker", "create role nobody",
        "create role capture login replication", "grant pg_read_all_data, nobody to capture"});
  for (const char* setting :
       {"datestyle = 'German, DMY'", "timezone = 'Europe/Berlin'", "intervalstyle = 'sql_standard'",
        "extra_float_digits = -10", "bytea_output = 'escape'", "search_path = 'public'",
        "client_encoding = 'LATIN1'", "quote_all_identifiers = on", "statement_timeout = '1ms'",
        "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '1ms'",
        "default_transaction_isolation = 'serializable'", "default_transaction_read_only = on",
        "default_transaction_deferrable = on", "role = 'nobody'"}) {
    Exec({std::string("alter role capture set ") + setting});
  }
  LiveTidemarkOptions options;
  options.user = "capture";
  options.postgres_lines = {"tables: [public.v, public.marker]"};
  StartServer(options);
  CatchUp();
  EXPECT_EQ(Here("public.v").size(), 2500u);
  Exec({RowsSql("v", 2501, 2510),
        "update v set d = d where d > "
        "'2027-12-20'"});
  CatchUp();
  // What differs from the snapshot or the stream would be told.
  ASSERT_TRUE(StartSnapshot("public.v").ok());
  ASSERT_TRUE(WaitForState("public.v", kFollowed, "asked for"));
  EXPECT_EQ(StatusOf("public.v").rows_read(), 2510u);
  EXPECT_EQ(StatusOf("public.v").changes_made(), 0u);
  const auto verified = tidemark_->Run({"verify", "main", "public.v"});
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->exit_code, 0) << verified->out << verified->err;
  // A table of which nothing was known, by chunks alone.
  Exec({"alter publication tidemark_main add table w"});
  ASSERT_TRUE(AddTable("public.w").ok());
  ASSERT_TRUE(WaitForState("public.w", kFollowed, "new to the feed"));
  Exec({RowsSql("w", 2501, 2510)});
  CatchUp();
  EXPECT_TRUE(Here("public.v") == Here("public.w"));
  EXPECT_EQ(Here("public.w").size(), 2510u);
}

}  // namespace
}  // namespace tidemark::testing
