// The order (position, sequence) is data: it survives loading elsewhere, in any order of lines. The
// view of deploy/sql/current_state.sql, as it stands there, gives the rows of the source, on every
// engine that the file names as proven.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/scratch_dir.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

// Every way in which a key gets, changes and loses its row; the last two transactions come behind a
// truncate. The last one leaves a large value out of the source's log.
constexpr const char* kTransactions[] = {
    "insert into orders values (1, 'Ada', 10.50, '2026-01-05'), (2, 'Grace', 0, null)",
    "begin; update orders set total = total + 1 where id = 1; update orders set total = total + 1 "
    "where id = 1; update orders set customer = 'Ada L.' where id = 1; commit",
    "update orders set id = 20 where id = 2",
    "begin; insert into orders values (3, 'Edsger', 1, '2026-02-01'); truncate orders; insert into "
    "orders values (4, 'Barbara', 4.00, '2026-03-01'), (5, 'Donald', 5, null), (6, 'Alan', 6, "
    "null), (7, repeat('x', 3000), 7, null); commit",
    "begin; delete from orders where id = 4; insert into orders values (4, 'Barbara L.', 4.25, "
    "null); commit",
    "begin; delete from orders where id = 5; update orders set id = 60, total = 6.5 where id = 6; "
    "update orders set total = 7.25 where id = 7; commit",
};
constexpr const char* kRows = "select id, customer, total, placed from {} order by id";

class CurrentStateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Exec(
        "create table orders (id bigint primary key, customer text, total numeric, placed date); "
        "alter table orders alter customer set storage external");
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
    for (const char* transaction : kTransactions) Exec(transaction);
    auto tail = tidemark_->Run({"tail", "main", "--from", "earliest", "--format", "jsonl",
                                "--max-transactions", std::to_string(std::size(kTransactions))});
    ASSERT_TRUE(tail.ok()) << tail.status();
    ASSERT_EQ(tail->exit_code, 0) << tail->err;
    std::istringstream lines(tail->out);
    for (std::string line; std::getline(lines, line);) changes_.push_back(line);
    ASSERT_THAT(changes_, ::testing::SizeIs(::testing::Ge(18u)));
    // What the view asks for: the feed keeps the rows, so nothing is absent.
    for (const std::string& line : changes_) {
      if (!HasOp(line, "insert") && !HasOp(line, "update")) continue;
      for (const char* column : {"id", "customer", "total", "placed"})
        ASSERT_THAT(line, ::testing::HasSubstr(fmt::format("\"{}\":", column)));
    }
    // No change, so it counts for nothing where a loader takes it along.
    changes_.push_back(R"({"__record":"gap","reason":"SLOT_LOST"})");
    // Lines come twice when a loader is killed; their order is whatever the loader makes of it.
    changes_.insert(changes_.end(), changes_.begin(), changes_.begin() + 5);
    std::shuffle(changes_.begin(), changes_.end(), std::mt19937_64(SeedFromEnvironment()));
  }

  void Exec(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done << "\n" << sql;
  }

  static bool HasOp(const std::string& line, const std::string& op) {
    return line.find(fmt::format(R"("__op":"{}")", op)) != std::string::npos;
  }

  std::string View() const { return FileText(SourceDir() / "deploy/sql/current_state.sql"); }

  void WriteChanges(const std::filesystem::path& file) const {
    std::ofstream lines(file);
    for (const std::string& line : changes_) lines << line << "\n";
  }

  std::string RowsOf(const std::string& table) {
    auto rows = postgres_->Query(fmt::format(fmt::runtime(kRows), table));
    if (!rows.ok()) return rows.status().ToString();
    std::string text;
    for (const auto& row : rows->rows) {
      for (const auto& value : row) text += value.value_or("NULL") + "|";
      text += "\n";
    }
    return text;
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
  std::vector<std::string> changes_;
};

// proves R08, R16, R18, R19, R09, A51, B005
TEST_F(CurrentStateTest, InPostgres) {
  Exec(
      "create schema warehouse; create table warehouse.orders_changes (__op text, __pos text, "
      "__seq bigint, id bigint, customer text, total numeric, placed date)");
  for (const std::string& line : changes_) {
    Exec(
        "insert into warehouse.orders_changes select * from jsonb_populate_record(null::"
        "warehouse.orders_changes, $line$" +
        line + "$line$)");
  }
  Exec("set search_path = warehouse; " + View());
  EXPECT_EQ(RowsOf("warehouse.orders_current"), RowsOf("public.orders"));
  EXPECT_EQ(RowsOf("public.orders"), "4|Barbara L.|4.25|NULL|\n7|" + std::string(3000, 'x') +
                                         "|7.25|NULL|\n60|Alan|6.5|NULL|\n");
}

// proves R08, R16, R18
TEST_F(CurrentStateTest, InSqlite) {
  WriteChanges(tidemark_->scratch_dir() / "changes.jsonl");
  ProcessOptions python;
  python.name = "sqlite";
  python.output_dir = tidemark_->scratch_dir();
  python.working_dir = tidemark_->scratch_dir();
  python.argv = {"/usr/bin/python3", "-c", R"py(
import json, sqlite3, sys
columns = ["__op", "__pos", "__seq", "id", "customer", "total", "placed"]
database = sqlite3.connect(":memory:")
database.execute("create table orders_changes (%s)" % ", ".join(columns))
for line in open("changes.jsonl"):
    change = json.loads(line)
    database.execute("insert into orders_changes values (?, ?, ?, ?, ?, ?, ?)", [change.get(name) for name in columns])
database.executescript(open(sys.argv[1]).read())
for row in database.execute("select id, customer, total, placed from orders_current order by id"):
    print("|".join("NULL" if value is None else str(value) for value in row) + "|")
)py",
                 (SourceDir() / "deploy/sql/current_state.sql").string()};
  const auto rows = RunCommand(std::move(python), seconds(30));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(*rows, RowsOf("public.orders"));
}

// The server in its bootstrap mode carries out the statements that it reads, and ends: no port, no
// socket, no client.
constexpr const char* kMariaDb =
    "mkdir -m 777 data && exec /usr/sbin/mariadbd --no-defaults --bootstrap "
    "--innodb-use-native-aio=0 --innodb-buffer-pool-size=16M \"$@\" <statements.sql";
constexpr const char* kMariaDbLoad = R"sql(
CREATE DATABASE warehouse CHARACTER SET utf8mb4;
USE warehouse;
CREATE TABLE loaded_lines (line text);
LOAD DATA INFILE '{0}/changes.jsonl' INTO TABLE loaded_lines FIELDS ESCAPED BY '';
CREATE TABLE orders_changes AS SELECT of_line.* FROM loaded_lines, JSON_TABLE(line, '$' COLUMNS (
  __op varchar(10) PATH '$.__op', __pos char(40) PATH '$.__pos', __seq bigint PATH '$.__seq',
  id bigint PATH '$.id', customer text PATH '$.customer', total text PATH '$.total',
  placed date PATH '$.placed')) AS of_line;
)sql";
constexpr const char* kMariaDbRows =
    "\nSELECT id, customer, total, placed FROM orders_current ORDER BY id INTO OUTFILE "
    "'{0}/rows' FIELDS TERMINATED BY '|' ESCAPED BY '' LINES TERMINATED BY '|\\n';\n";

// proves R08, R16, R18
TEST_F(CurrentStateTest, InMariaDb) {
  const ScratchDir scratch("mariadb");
  // As root it takes another user on, and that one writes here.
  std::filesystem::permissions(scratch.path(), std::filesystem::perms::all);
  const char* user = getenv("TIDEMARK_TEST_USER");
  const std::string folder = scratch.path().string();
  WriteChanges(scratch / "changes.jsonl");
  std::ofstream(scratch / "statements.sql")
      << fmt::format(fmt::runtime(kMariaDbLoad), folder) << View()
      << fmt::format(fmt::runtime(kMariaDbRows), folder);
  ProcessOptions mariadb;
  mariadb.name = "mariadb";
  mariadb.output_dir = folder;
  mariadb.working_dir = folder;
  mariadb.argv = {"/bin/sh",
                  "-c",
                  kMariaDb,
                  "mariadb",
                  "--datadir=" + folder + "/data",
                  fmt::format("--user={}", user != nullptr ? user : "tidemark-test")};
  const auto ended = RunCommand(std::move(mariadb), seconds(60));
  ASSERT_TRUE(ended.ok()) << ended.status() << "\nmissing: deploy/install-packages test";
  EXPECT_EQ(FileText(scratch / "rows"), RowsOf("public.orders")) << *ended;
}

}  // namespace
}  // namespace tidemark::testing
