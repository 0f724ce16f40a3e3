// What a real server prints: by COPY, as a snapshot reads it, and by pgoutput, as the stream does.
// Both must give the same bytes (O2), and those must be what the type table of proto/README.md
// says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/row_encoder.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/live_postgres.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture::postgres {
namespace {

using tidemark::testing::LivePostgres;
using tidemark::testing::LivePostgresOptions;
using tidemark::testing::PgRows;
using tidemark::testing::PgSession;

// Settings of the database that would change every text, if a session did not pin its own.
constexpr char kHostileSettings[] =
    "ALTER DATABASE postgres SET datestyle = 'German, DMY';"
    "ALTER DATABASE postgres SET intervalstyle = 'sql_standard';"
    "ALTER DATABASE postgres SET timezone = 'Europe/Berlin';"
    "ALTER DATABASE postgres SET bytea_output = 'escape';"
    "ALTER DATABASE postgres SET extra_float_digits = 0;";
constexpr char kPins[] =
    "SET client_encoding = 'UTF8'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'iso_8601';"
    "SET timezone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 3;"
    "SET lc_monetary = 'C'; SET search_path = '';";

struct Row {
  std::string type, form, literal, shown;
};

std::string Unquoted(std::string_view cell) {
  cell = cell.substr(cell.find('`') + 1);
  return std::string(cell.substr(0, cell.rfind('`')));
}

// The type table, as it stands in the document; a cell holds no '|'.
std::vector<Row> TypeTable() {
  std::ifstream file(tidemark::testing::SourceDir() / "proto/README.md");
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "| type | form | SQL | Value |") {
      inside = true;
    } else if (inside && !line.starts_with('|')) {
      break;
    } else if (inside && !line.starts_with("| ---")) {
      const std::vector<std::string> cells = absl::StrSplit(line, '|');
      EXPECT_EQ(cells.size(), 6u) << line;
      rows.push_back({std::string(absl::StripAsciiWhitespace(cells[1])),
                      std::string(absl::StripAsciiWhitespace(cells[2])), Unquoted(cells[3]),
                      Unquoted(cells[4])});
    }
  }
  return rows;
}

// The SQL of the document that defines the types of the table.
std::string TypeDefinitions() {
  std::ifstream file(tidemark::testing::SourceDir() / "proto/README.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const size_t begin = text.find("```sql\n") + 7;
  return text.substr(begin, text.find("```", begin) - begin);
}

class ValueLiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<LivePostgres>> server = LivePostgres::Create();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    ASSERT_TRUE(server_->Exec(kHostileSettings).ok());
    absl::StatusOr<std::unique_ptr<PgSession>> session = server_->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = std::move(*session);
    Exec(TypeDefinitions());
    Exec("CREATE PUBLICATION everything FOR ALL TABLES");
    Exec("SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
  }

  void Exec(const std::string& sql) {
    const absl::Status status = session_->Exec(sql);
    ASSERT_TRUE(status.ok()) << status << " for " << sql;
  }

  PgRows Query(const std::string& sql) {
    const absl::StatusOr<PgRows> rows = session_->Query(sql);
    EXPECT_TRUE(rows.ok()) << rows.status() << " for " << sql;
    return rows.ok() ? *rows : PgRows();
  }

  void LoadTypes() {
    for (const auto& row :
         Query(
             "SELECT t.oid, n.nspname, t.typname, t.typtype, t.typelem, t.typdelim, t.typbasetype,"
             "  t.typsubscript::oid = 'array_subscript_handler'::regproc AS is_array,"
             "  (SELECT string_agg(a.atttypid::text, ',' ORDER BY a.attnum) FROM pg_attribute a"
             "   WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)"
             " FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid >= 16384")
             .rows) {
      TypeInfo type{.oid = static_cast<uint32_t>(std::stoul(*row[0])),
                    .schema_name = *row[1],
                    .name = *row[2],
                    .element_oid = static_cast<uint32_t>(std::stoul(*row[4])),
                    .delimiter = (*row[5])[0],
                    .base_oid = static_cast<uint32_t>(std::stoul(*row[6]))};
      const char kind = (*row[3])[0];
      type.kind = *row[7] == "t" ? TypeKind::kArray
                  : kind == 'd'  ? TypeKind::kDomain
                  : kind == 'e'  ? TypeKind::kEnum
                  : kind == 'c'  ? TypeKind::kComposite
                  : kind == 'r'  ? TypeKind::kRange
                                 : TypeKind::kBase;
      if (type.kind == TypeKind::kComposite && row[8]) {
        for (const std::string& oid : std::vector<std::string>(absl::StrSplit(*row[8], ','))) {
          type.fields.push_back({"", static_cast<uint32_t>(std::stoul(oid)), -1});
        }
      }
      catalog_.Add(type);
    }
  }

  RowShape ShapeOf(const RelationMessage& relation) {
    RowShape shape{.schema_id = 1, .table_name = std::string(relation.table_name)};
    for (const RelationColumn& column : relation.columns) {
      shape.types.push_back(catalog_.Resolve(column.type_oid));
      shape.column_names.emplace_back(column.name);
      source_types_.push_back(catalog_.SourceType(column.type_oid, column.typmod));
      // Every column is marked under replica identity full; the tables here have their key first.
      const bool is_key = shape.column_names.size() == 1;
      if (relation.replica_identity == 'f' ? is_key : column.in_identity) {
        shape.key_columns.push_back(shape.column_names.size() - 1);
      }
    }
    return shape;
  }

  // Everything that the slot holds, with every insert and update of the last relation encoded.
  std::vector<v1::Change> Streamed() {
    PgoutputDecoder decoder;
    TransactionBuilder builder;
    builder.Begin();
    source_types_.clear();
    for (const auto& row :
         Query("SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes("
               "'s', NULL, NULL, 'proto_version', '1', 'publication_names', "
               "'everything')")
             .rows) {
      const std::string bytes = absl::HexStringToBytes(*row[0]);
      const auto message = decoder.Decode(bytes);
      EXPECT_TRUE(message.ok()) << message.status();
      if (!message.ok()) break;
      absl::Status status;
      if (const auto* relation = std::get_if<RelationMessage>(&*message))
        shape_ = ShapeOf(*relation);
      if (const auto* insert = std::get_if<InsertMessage>(&*message)) {
        status = encoder_.AddInsert(shape_, *insert, &builder);
      }
      if (const auto* update = std::get_if<UpdateMessage>(&*message)) {
        status = encoder_.AddUpdate(shape_, *update, &builder);
      }
      if (const auto* removal = std::get_if<DeleteMessage>(&*message)) {
        status = encoder_.AddDelete(shape_, *removal, &builder);
      }
      EXPECT_TRUE(status.ok()) << status;
    }
    return ChangesOf(&builder);
  }

  // The rows of a table, as a snapshot reads them, under the shape of the stream.
  std::vector<v1::Change> Read(const std::string& table) {
    const std::string path = server_->data_dir() / "copy.out";
    Exec("COPY (SELECT * FROM public." + table + " ORDER BY id) TO '" + path + "'");
    std::ifstream file(path);
    TransactionBuilder builder;
    builder.Begin();
    for (std::string line; std::getline(file, line);) {
      const absl::Status status = encoder_.AddCopyLine(shape_, line, &builder);
      EXPECT_TRUE(status.ok()) << status;
    }
    return ChangesOf(&builder);
  }

  static std::vector<v1::Change> ChangesOf(TransactionBuilder* builder) {
    std::vector<v1::Change> changes;
    for (const EncodedRun& run : builder->Finish(Position(), {}).runs) {
      v1::Run parsed;
      EXPECT_TRUE(parsed.ParseFromString(run.bytes));
      EXPECT_EQ(parsed.SerializeAsString(), run.bytes);
      changes.insert(changes.end(), parsed.changes().begin(), parsed.changes().end());
    }
    return changes;
  }

  void ExpectSameFace(const v1::Change& streamed, const v1::Change& read) {
    ASSERT_EQ(streamed.after_size(), read.after_size());
    for (int i = 0; i < streamed.after_size(); ++i) {
      EXPECT_EQ(streamed.after(i).SerializeAsString(), read.after(i).SerializeAsString())
          << shape_.column_names[i] << ": " << streamed.after(i).ShortDebugString()
          << " by stream, " << read.after(i).ShortDebugString() << " by snapshot";
    }
  }

  std::unique_ptr<LivePostgres> server_;
  std::unique_ptr<PgSession> session_;
  TypeCatalog catalog_;
  RowEncoder encoder_;
  RowShape shape_;
  std::vector<std::string> source_types_;
};

// proves B025, B027, B029, B031, B033, B035, B039: whatever the database's own settings are.
TEST_F(ValueLiveTest, TypeTableHoldsBySnapshotAndByStream) {
  const std::vector<Row> table = TypeTable();
  ASSERT_GT(table.size(), 60u);
  std::string columns = "id integer PRIMARY KEY";
  std::string values = "1";
  for (size_t i = 0; i < table.size(); ++i) {
    columns += ", v" + std::to_string(i) + " " + table[i].type;
    // Without a space, so that an untyped literal meets the column's type.
    values += "," + table[i].literal;
  }
  Exec("CREATE TABLE matrix (" + columns + ")");
  // In another session, with other settings.
  ASSERT_TRUE(server_->Exec("INSERT INTO matrix VALUES (" + values + ")").ok());
  Exec(kPins);
  LoadTypes();
  const std::vector<v1::Change> streamed = Streamed();
  ASSERT_EQ(streamed.size(), 1u);
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(streamed[0].after(i + 1).ShortDebugString(), table[i].shown) << table[i].type;
    EXPECT_EQ(source_types_[i + 1], table[i].type);
    EXPECT_EQ(v1::ValueForm_Name(FormOf(*shape_.types[i + 1])), "VALUE_FORM_" + table[i].form)
        << table[i].type;
  }
  const std::vector<v1::Change> read = Read("matrix");
  ASSERT_EQ(read.size(), 1u);
  ExpectSameFace(streamed[0], read[0]);
}

TEST_F(ValueLiveTest, HardValuesHaveTheSameFace) {
  Exec("CREATE TYPE deep AS (pairs pair[], tags tags, at timestamptz, raw bytea)");
  Exec(
      "CREATE TABLE hard (id integer PRIMARY KEY, f4 real, f8 double precision, n numeric,"
      " t text, b bytea, ts timestamptz, tz timetz, iv interval, ta text[], ba bytea[],"
      " tsa timestamptz[], da tags[], c deep, ca deep[], j jsonb, e mood[])");
  Exec(R"(INSERT INTO hard VALUES
    (1, 'NaN', 'NaN', 'NaN', '', '', 'infinity', '24:00:00-15:59:59', '-1 mon +1 day -00:00:00.000001',
     '{}', '{}', '{}', '{}', row('{}','{}',NULL,''), '{}', 'null', '{}'),
    (2, '-0', '-0', 'Infinity', E'tab\t nl\n cr\r bs\\ \\N \b\f\x0b', '\x00ff0a095c', '-infinity',
     '00:00:00+05:30:15', '178000000 years',
     array['', 'NULL', NULL, 'a,b', 'q"q', E'b\\b', '{x}', ' s ', 'é', E'\t\n'],
     array['\x'::bytea, '\x5c22', NULL], array['infinity'::timestamptz, '0044-03-15 10:00 BC'],
     '{"{\"a\\\\b\",NULL}",NULL}', NULL, NULL, '1e400', '{sad,NULL}'),
    (3, 1e-45, 5e-324, 1e-20, repeat('é', 1000), decode(repeat('00', 3000), 'hex'),
     '294276-12-31 23:59:59.999999+00', '00:00:00.000001+00', '0',
     array[['a','b'],[NULL,'"']], '[0:0]={"\\x01"}', '[-5:-4][2:2]={{2021-03-28 01:30Z},{2021-10-31 00:30Z}}',
     '{NULL}', row(array[row(1,'a"b\c,()'), row(NULL,''), NULL]::pair[], '{"x y"}',
     '1883-11-18 12:03:58-00', '\x5c'), array[row(array[row(-1,E'\\"')]::pair[], NULL, NULL, NULL),
     NULL]::deep[], '{"n": 12345678901234567890.10, "s": "\u00e9\""}', '[3:3]={happy}'),
    (4, 3.4028235e38, 1.7976931348623157e308, 123456789012345678901234567890.1234500, NULL, NULL,
     '4713-01-01 00:00:00 BC', NULL, NULL, NULL, NULL, NULL, NULL, row(NULL,NULL,NULL,NULL), NULL,
     NULL, NULL))");
  Exec(kPins);
  LoadTypes();
  const std::vector<v1::Change> streamed = Streamed();
  const std::vector<v1::Change> read = Read("hard");
  ASSERT_EQ(streamed.size(), 4u);
  ASSERT_EQ(read.size(), 4u);
  for (size_t i = 0; i < streamed.size(); ++i) ExpectSameFace(streamed[i], read[i]);

  EXPECT_EQ(streamed[1].after(4).text(), "tab\t nl\n cr\r bs\\ \\N \b\f\v");
  EXPECT_EQ(streamed[0].after(8).temporal(), "P-1M1DT-0.000001S");
  EXPECT_EQ(streamed[1].after(7).temporal(), "00:00:00+05:30:15");
  EXPECT_EQ(streamed[1].after(11).list().items(1).temporal(), "0044-03-15T09:06:32Z BC")
      << "as Berlin's clock of that time says";
  EXPECT_EQ(streamed[1].after(15).json().size(), 401u);
  EXPECT_EQ(streamed[2]
                .after(14)
                .list()
                .items(0)
                .composite()
                .fields(0)
                .list()
                .items(0)
                .composite()
                .fields(1)
                .text(),
            "\\\"");
  EXPECT_EQ(streamed[2].after(11).list().lower_bounds(0), -5);
  EXPECT_EQ(streamed[2].after(11).list().items(1).list().items(0).temporal(),
            "2021-10-31T00:30:00Z");
  EXPECT_EQ(streamed[3].after(13).composite().fields_size(), 4);
}

// proves B001, B005, B007, B009, R44, R45 on the wire of a real server.
TEST_F(ValueLiveTest, UpdatesAndDeletesOfEveryIdentity) {
  Exec("CREATE TABLE t (id integer PRIMARY KEY, a integer, big text)");
  Exec("ALTER TABLE t ALTER big SET STORAGE EXTERNAL");
  Exec("INSERT INTO t VALUES (1, 1, repeat('x', 20000))");
  Exec("UPDATE t SET a = 2");
  Exec("UPDATE t SET id = 2");
  Exec("DELETE FROM t");
  Exec(kPins);
  std::vector<v1::Change> changes = Streamed();
  ASSERT_EQ(changes.size(), 5u);
  EXPECT_EQ(changes[0].after(2).text().size(), 20000u);
  EXPECT_EQ(changes[1].op(), v1::OP_UPDATE);
  EXPECT_EQ(changes[1].after(2).kind_case(), v1::Value::KIND_NOT_SET);
  EXPECT_EQ(changes[2].op(), v1::OP_DELETE);
  EXPECT_TRUE(changes[2].key_change());
  EXPECT_EQ(changes[2].key(0).integer(), 1);
  EXPECT_EQ(changes[3].op(), v1::OP_INSERT);
  EXPECT_EQ(changes[3].after(0).integer(), 2);
  EXPECT_EQ(changes[4].op(), v1::OP_DELETE);
  EXPECT_EQ(changes[4].key_size(), 1);

  Exec("SET search_path = public; ALTER TABLE t REPLICA IDENTITY FULL");
  Exec("INSERT INTO t VALUES (1, 1, repeat('x', 20000)); UPDATE t SET a = 2; DELETE FROM t");
  Exec("SET search_path = ''");
  changes = Streamed();
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[1].after(2).text().size(), 20000u);
  EXPECT_EQ(changes[1].before(1).integer(), 1);
  EXPECT_EQ(changes[2].before(2).text().size(), 20000u);

  // A key that is stored out of line comes as an old key though it did not change.
  Exec("CREATE TABLE public.k (id text PRIMARY KEY, v integer)");
  Exec("ALTER TABLE public.k ALTER id SET STORAGE EXTERNAL");
  Exec("INSERT INTO public.k SELECT string_agg(md5(i::text), ''), 1 FROM generate_series(1, 80) i");
  Exec("UPDATE public.k SET v = 2");
  changes = Streamed();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[1].op(), v1::OP_UPDATE);
  EXPECT_EQ(changes[1].after(0).text().size(), 80u * 32) << "the key is always there";
}

}  // namespace
}  // namespace tidemark::capture::postgres
