// Every type, by snapshot and by stream: the same row is the same bytes (O2), and the values are
// right.
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::HasSubstr;

struct Typed {
  const char* type;
  const char* literal;
  // As ValueText prints it; nullptr: only equality of both paths is claimed.
  const char* expected;
};

// proves R53, B025, B027, B029, B031, B033, B035
const Typed kValues[] = {
    {"smallint", "-32768", "-32768"},
    {"int", "2147483647", "2147483647"},
    {"bigint", "-9223372036854775808", "-9223372036854775808"},
    {"real", "0.1", "0.1f"},
    {"real", "-Infinity", "-inff"},
    {"double precision", "0.1", "0.1d"},
    {"double precision", "1e-310", "1e-310d"},
    {"double precision", "-0", "-0d"},
    {"double precision", "NaN", "nand"},
    {"numeric", "NaN", "NaN"},
    {"numeric", "Infinity", "Infinity"},
    {"numeric", "1e-20", "0.00000000000000000001"},
    {"numeric", "123456789012345678901234567890.1234500", "123456789012345678901234567890.1234500"},
    {"numeric(10,2)", "1.5", "1.50"},
    {"numeric(10,2)", "-0.00", "0.00"},
    {"boolean", "t", "true"},
    {"text", "tab\there, line\nbreak, back\\slash, \xf0\x9f\x90\x98, \\N", nullptr},
    {"text", "", ""},
    {"varchar(5)", "ab", "ab"},
    {"char(5)", "ab", "ab   "},
    {"\"char\"", "x", "x"},
    {"name", "n", "n"},
    {"bytea", "\\x00ff5c0a", "\\x00ff5c0a"},
    {"date", "2021-02-03", "2021-02-03"},
    {"date", "infinity", "infinity"},
    {"date", "0044-03-15 BC", "0044-03-15 BC"},
    {"time", "23:59:59.999999", "23:59:59.999999"},
    {"timetz", "12:00:00+05:30", "12:00:00+05:30"},
    {"timestamp", "2021-03-28 02:30:00", "2021-03-28T02:30:00"},
    {"timestamp", "-infinity", "-infinity"},
    {"timestamp(3)", "2021-03-28 02:30:00.1235", nullptr},
    {"timestamptz", "2021-10-31 00:30:00.000001Z", "2021-10-31T00:30:00.000001Z"},
    {"timestamptz", "infinity", "infinity"},
    {"timestamptz", "0044-03-15 12:00:00Z BC", "0044-03-15T12:00:00Z BC"},
    {"interval", "1 year 2 mons -3 days 04:05:06.789", "P1Y2M-3DT4H5M6.789S"},
    {"interval", "-1 mon +1 day -00:00:00.000001", "P-1M1DT-0.000001S"},
    {"interval", "178000000 years", "P178000000Y"},
    {"uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
    {"json", "{\"b\":1,\"a\":1.0,  \"a\":12345678901234567890}",
     "{\"b\":1,\"a\":1.0,  \"a\":12345678901234567890}"},
    {"jsonb", "{\"b\":1,\"a\":1.0,\"a\":12345678901234567890}",
     "{\"a\": 12345678901234567890, \"b\": 1}"},
    {"mood", "happy", "happy"},
    {"mood[]", "{sad,happy,NULL}", "[sad,happy,null]"},
    {"posint", "7", "7"},
    {"texts", "{a,\"b c\"}", "[a,b c]"},
    {"pair", "(1,\"a,b\")", "(1,a,b)"},
    {"pair[]", "{\"(1,x)\",\"(2,)\"}", "[(1,x),(2,null)]"},
    {"box[]", "{(2,2),(1,1);(4,4),(3,3)}", nullptr},
    {"int[]", "{{1,2},{3,NULL}}", "[[1,2],[3,null]]"},
    {"int[]", "[2:3]={1,2}", "[1,2]"},
    {"int[]", "{}", "[]"},
    {"text[]", "{\"\",NULL,\"NULL\",\"a\\\"b\",\"c\\\\d\",\"e,f\"}", nullptr},
    {"numeric[]", "{1.50,NaN}", "[1.50,NaN]"},
    {"timestamptz[]", "{2021-10-31 00:30:00Z}", "[2021-10-31T00:30:00Z]"},
    {"int4range", "[1,5)", "[1,5)"},
    {"int4range", "empty", "empty"},
    {"tstzrange", "[2021-01-01 00:00Z,)", nullptr},
    {"int4multirange", "{[1,3),[5,7)}", "{[1,3),[5,7)}"},
    {"hstore", "a=>1,\"b c\"=>NULL", "\"a\"=>\"1\", \"b c\"=>NULL"},
    {"citext", "AbC", "AbC"},
    {"inet", "10.0.0.1/8", "10.0.0.1/8"},
    {"cidr", "10.0.0.0/8", "10.0.0.0/8"},
    {"macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:03"},
    {"macaddr8", "08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03:04:05"},
    {"bit(3)", "101", "101"},
    {"varbit", "10101", "10101"},
    {"money", "-1234.56", nullptr},
    {"xml", "<a b=\"c\"/>", "<a b=\"c\"/>"},
    {"point", "(1.5,2)", "(1.5,2)"},
    {"polygon", "((0,0),(1,1),(1,0))", "((0,0),(1,1),(1,0))"},
    {"circle", "<(1,2),3>", "<(1,2),3>"},
    {"tsvector", "a fat cat", "'a' 'cat' 'fat'"},
    {"tsquery", "fat & rat", "'fat' & 'rat'"},
    {"pg_lsn", "16/B374D848", "16/B374D848"},
    {"oid", "4294967295", "4294967295"},
    {"xid8", "18446744073709551615", "18446744073709551615"},
    {"regclass", "pg_class", nullptr},
    {"jsonpath", "$.a", nullptr},
    {"\"Odd.Type\"", "x", "x"},
};

class PostgresValuesTest : public PostgresFixture {
 protected:
  void MakeTypes() {
    ExecEach({"CREATE EXTENSION hstore", "CREATE EXTENSION citext",
              "CREATE TYPE mood AS ENUM ('sad', 'happy')",
              "CREATE DOMAIN posint AS int CHECK (VALUE > 0)", "CREATE DOMAIN texts AS text[]",
              "CREATE TYPE pair AS (n int, t text)", "CREATE TYPE \"Odd.Type\" AS ENUM ('x')"});
  }
};

std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

TEST_F(PostgresValuesTest, SnapshotAndStreamShowTheSameFace) {  // proves O2
  MakeTypes();
  std::string columns;
  std::string literals;
  size_t count = 0;
  for (const Typed& value : kValues) {
    columns += fmt::format(", c{} {}", count, value.type);
    literals += ", " + Quoted(value.literal);
    ++count;
  }
  Exec("CREATE TABLE v (id int PRIMARY KEY" + columns + ")");
  Exec("INSERT INTO v VALUES (1" + literals + ")");
  Exec("INSERT INTO v (id) VALUES (2)");  // NULL everywhere
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("INSERT INTO v VALUES (3" + literals + ")");
  Exec("INSERT INTO v (id) VALUES (4)");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));

  ASSERT_EQ(driver.snapshot_rows.size(), 2u);
  const v1::Change& by_snapshot = driver.snapshot_rows[0].change;
  const v1::Change& by_stream = driver.transactions[0].changes[0].change;
  const v1::TableSchema& schema = driver.snapshot_rows[0].schema;
  EXPECT_EQ(schema.schema_id(), driver.transactions[0].changes[0].schema.schema_id());
  ASSERT_EQ(static_cast<size_t>(by_snapshot.after_size()), count + 1);
  ASSERT_EQ(static_cast<size_t>(by_stream.after_size()), count + 1);
  for (size_t i = 0; i < count; ++i) {
    const int column = static_cast<int>(i) + 1;
    const std::string what = fmt::format("{} {}", kValues[i].type, kValues[i].literal);
    EXPECT_EQ(by_snapshot.after(column).SerializeAsString(),
              by_stream.after(column).SerializeAsString())
        << what << ": " << ValueText(by_snapshot.after(column)) << " by snapshot, "
        << ValueText(by_stream.after(column)) << " by stream";
    if (kValues[i].expected != nullptr) {
      EXPECT_EQ(ValueText(by_stream.after(column)), kValues[i].expected) << what;
    }
    EXPECT_NE(schema.columns(column).form(), v1::VALUE_FORM_UNSPECIFIED) << what;
    EXPECT_EQ(ValueText(driver.snapshot_rows[1].change.after(column)), "null") << what;
    EXPECT_EQ(ValueText(driver.transactions[1].changes[0].change.after(column)), "null") << what;
  }
}

TEST_F(PostgresValuesTest, SourceTypesAreNamedAsTheServerNamesThem) {
  MakeTypes();
  ExecEach({"CREATE SCHEMA s", "CREATE TYPE s.mood AS ENUM ('x')",
            "CREATE TABLE v (id int PRIMARY KEY, a numeric(10,2), b varchar(3)[], c timestamp(3) "
            "with time zone, d mood, e pair[], f posint, g interval day to second(3), h bit(4))"});
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  auto rows = postgres_->Query(
      "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'v'::regclass "
      "AND "
      "attnum > 0 ORDER BY attnum");
  ASSERT_TRUE(rows.ok());
  const v1::TableSchema& schema = driver.schemas.begin()->second;
  ASSERT_EQ(static_cast<size_t>(schema.columns_size()), rows->rows.size());
  for (int i = 0; i < schema.columns_size(); ++i) {
    EXPECT_EQ(schema.columns(i).source_type(), *rows->rows[i][0]);
  }
}

TEST_F(PostgresValuesTest, TypesChangeUnderARunningStream) {  // proves B031
  MakeTypes();
  Exec("CREATE TABLE v (id int PRIMARY KEY, p pair)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("INSERT INTO v VALUES (1, '(1,x)')");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  ExecEach(
      {"ALTER TYPE pair ADD ATTRIBUTE more date", "INSERT INTO v VALUES (2, '(1,x,2021-02-03)')"});
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  EXPECT_EQ(driver.Changes()[1], "insert v id=2 p=(1,x,2021-02-03)");
}

}  // namespace
}  // namespace tidemark::capture
