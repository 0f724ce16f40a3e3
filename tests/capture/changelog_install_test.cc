// deploy/sql/changelog: what its triggers note, of every way in which rows change, and how it is
// put on tables and taken off again.
#include "tests/capture/changelog_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ChangelogInstallTest : public ChangelogFixture {
 protected:
  std::string Refusal(const std::string& sql) {
    const absl::Status refused = postgres_->Exec(sql);
    EXPECT_FALSE(refused.ok()) << sql;
    return std::string(refused.message());
  }
  // What the changelog leaves of the table is the table.
  void ExpectSame(const std::string& table, const std::vector<std::string>& keys) {
    SourceDriver driver(ChangelogOf(*postgres_));
    ASSERT_TRUE(Pulled(driver)) << table;
    EXPECT_EQ(Folded(driver, table), Held(table, keys)) << table;
  }
};

// proves P27
TEST_F(ChangelogInstallTest, EveryWayInWhichRowsChangeIsNoted) {
  Exec("CREATE TABLE parent (id int PRIMARY KEY, v text)");
  Exec(
      "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON "
      "UPDATE CASCADE, v text DEFAULT 'd')");
  Install("{parent, child}");
  auto session = Session();
  Do(session, "INSERT INTO parent SELECT i, 'x' FROM generate_series(1, 9) i");
  ASSERT_TRUE(
      session->CopyIn("COPY child (id, parent) FROM STDIN", "1\t1\n2\t2\n3\t3\n4\t4\n").ok());
  Do(session,
     "INSERT INTO parent VALUES (9, 'on conflict'), (10, 'new') ON CONFLICT (id) DO UPDATE "
     "SET v = excluded.v");
  Do(session, "UPDATE parent SET id = 101 WHERE id = 1");
  Do(session, "DELETE FROM parent WHERE id = 2");
  Do(session,
     "WITH moved AS (DELETE FROM parent WHERE id = 5 RETURNING *) INSERT INTO parent SELECT "
     "id + 200, v FROM moved");
  if (std::stoi(Value("SHOW server_version_num")) >= 150000) {
    Do(session,
       "MERGE INTO parent USING (VALUES (6, 'merged'), (300, 'inserted')) n(id, v) ON "
       "parent.id = n.id WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT "
       "VALUES (n.id, n.v)");
  }
  // As a subscription applies it, and many tools that load or sync data.
  Do(session, "SET session_replication_role = replica");
  Do(session, "INSERT INTO parent VALUES (400, 'replica')");
  Do(session, "UPDATE parent SET v = 'replica' WHERE id = 7");
  Do(session, "SET session_replication_role = origin");
  ExpectSame("parent", {"id"});
  ExpectSame("child", {"id"});
  EXPECT_EQ(Value("SELECT count(*) FROM tidemark.changelog WHERE table_name = 'child' AND op = "
                  "'delete'"),
            "1")
      << "the cascade";
  Do(session, "TRUNCATE parent CASCADE");
  Do(session, "INSERT INTO parent VALUES (1, 'again')");
  ExpectSame("parent", {"id"});
  ExpectSame("child", {"id"});
}

TEST_F(ChangelogInstallTest, PartitionsAreToldUnderTheNameOfTheirRoot) {
  Exec("CREATE TABLE part (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k)");
  Exec("CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10)");
  Exec("CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id)");
  Exec("CREATE TABLE part21 PARTITION OF part2 DEFAULT");
  Install("{part}");
  Exec("CREATE TABLE part3 PARTITION OF part FOR VALUES FROM (20) TO (30)");
  Exec("CREATE TABLE part4 (id int NOT NULL, v text, k int NOT NULL, PRIMARY KEY (id, k))");
  Exec("ALTER TABLE part ATTACH PARTITION part4 FOR VALUES FROM (30) TO (40)");
  Exec("INSERT INTO part SELECT i, i, 'x' FROM generate_series(1, 39) i");
  Exec("UPDATE part SET k = k + 10 WHERE id < 5");
  Exec("UPDATE part SET v = 'y' WHERE id % 3 = 0");
  Exec("DELETE FROM part3 WHERE id = 21");
  ExecEach(
      {"SET session_replication_role = replica", "INSERT INTO part VALUES (99, 25, 'replica')"});
  EXPECT_EQ(Value("SELECT string_agg(DISTINCT table_name, ',') FROM tidemark.changelog"), "part");
  ExpectSame("part", {"id", "k"});
  // One of them alone, beside others that stay.
  Exec("TRUNCATE part1");
  ExpectSame("part", {"id", "k"});
  EXPECT_EQ(Value("SELECT count(*) FROM tidemark.changelog WHERE op = 'truncate'"), "0");
  Exec("TRUNCATE part");
  EXPECT_EQ(Value("SELECT op FROM tidemark.changelog ORDER BY seq DESC LIMIT 1"), "truncate");
  Exec("INSERT INTO part VALUES (1, 11, 'again')");
  ExpectSame("part", {"id", "k"});
  // Those that came since then get what is missing.
  Install("{part}");
  Exec("INSERT INTO part VALUES (2, 25, 'again')");
  Exec("TRUNCATE part3");
  ExpectSame("part", {"id", "k"});
}

TEST_F(ChangelogInstallTest, AChangeOfTheKeyIsTwoRows) {
  Exec("CREATE TABLE item (a int, v text, b int, PRIMARY KEY (b, a))");
  Install("{item}");
  Exec("INSERT INTO item VALUES (1, 'x', 2)");
  Exec("UPDATE item SET a = 5, v = 'y'");
  SourceDriver driver(ChangelogOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  ASSERT_EQ(driver.transactions[1].changes.size(), 2u);
  EXPECT_THAT(
      driver.transactions[1].changes[0].Text(),
      AllOf(HasSubstr("delete item key_change"), HasSubstr("key(key={\"a\": 1, \"b\": 2})")));
  EXPECT_EQ(
      driver.transactions[1].changes[1].Text(),
      "insert item key_change key={\"a\": 5, \"b\": 2} row={\"a\": 5, \"b\": 2, \"v\": \"y\"}");
  ExpectSame("item", {"a", "b"});
}

// The text of a key does not depend on who writes.
TEST_F(ChangelogInstallTest, TheSameKeyIsTheSameTextWhateverTheSessionIsSetTo) {
  Exec(
      "CREATE TABLE item (at timestamptz, f float8, d interval, b bytea, r tstzrange, v int, "
      "PRIMARY KEY (at, f, d, b, r))");
  Install("{item}");
  Exec(
      "INSERT INTO item VALUES ('2026-01-01 12:00:00+00', 0.1, '1 day 02:00', '\\x0102', "
      "'[2026-01-01 00:00+00,2026-01-02 00:00+00)', 1)");
  ExecEach({"SET timezone = 'Asia/Tokyo'", "SET datestyle = 'German'",
            "SET intervalstyle = 'postgres_verbose'", "SET bytea_output = 'escape'",
            "SET extra_float_digits = -10", "UPDATE item SET v = 2"});
  EXPECT_EQ(Value("SELECT count(DISTINCT key::text) FROM tidemark.changelog"), "1");
  EXPECT_EQ(Value("SELECT string_agg(op, ',' ORDER BY seq) FROM tidemark.changelog"),
            "insert,update");
}

// Whoever writes to a table needs no right on the changelog, and has none.
TEST_F(ChangelogInstallTest, TheApplicationNeedsNoRightOnTheChangelog) {
  Exec("CREATE TABLE item (id int PRIMARY KEY, v text)");
  Install("{item}");
  Exec("CREATE ROLE app LOGIN; GRANT ALL ON item TO app; GRANT CREATE ON SCHEMA public TO app");
  auto connected = postgres_->Connect("postgres", "user=app");
  ASSERT_TRUE(connected.ok()) << connected.status();
  auto app = *std::move(connected);
  // Objects of its own, found before the right ones, would be called by a careless function.
  Do(app,
     "CREATE FUNCTION public.to_jsonb(item) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{}'::jsonb "
     "$$");
  Do(app, "SET search_path = public, pg_catalog");
  Do(app, "INSERT INTO item VALUES (1, 'x')");
  Do(app, "UPDATE item SET id = 2");
  Do(app, "TRUNCATE item");
  Do(app, "INSERT INTO item VALUES (3, 'x')");
  for (const std::string sql :
       {"SELECT * FROM tidemark.changelog", "INSERT INTO tidemark.changelog DEFAULT VALUES",
        "DELETE FROM tidemark.changelog", "SELECT nextval('tidemark.changelog_seq')",
        "CREATE TABLE mine (id int); CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE "
        "FUNCTION tidemark.changelog_note('public', 'item', 'id')"}) {
    const absl::Status denied = app->Exec(sql);
    EXPECT_THAT(std::string(denied.message()), HasSubstr("42501")) << sql;
  }
  ExpectSame("item", {"id"});
}

// All or none, and by name.
TEST_F(ChangelogInstallTest, WhatCannotBeToldIsRefusedByName) {
  Exec("CREATE TABLE good (id int PRIMARY KEY)");
  Exec("CREATE TABLE nokey (id int)");
  Exec("ALTER TABLE nokey REPLICA IDENTITY FULL");
  Exec("CREATE TABLE later (id int PRIMARY KEY DEFERRABLE)");
  Exec("CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)");
  Exec("CREATE VIEW v AS SELECT 1 AS id");
  Exec("CREATE TABLE part (id int PRIMARY KEY) PARTITION BY RANGE (id)");
  Exec("CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10)");
  const std::string refused = Refusal(
      "SELECT tidemark.changelog_install('{good, nokey, later, unlogged, v, part1, "
      "tidemark.changelog}')");
  EXPECT_THAT(refused,
              AllOf(HasSubstr("public.nokey has no primary key"),
                    HasSubstr("public.later has no primary key (nor"),
                    HasSubstr("public.unlogged is not LOGGED"), HasSubstr("public.v is no table"),
                    HasSubstr("public.part1 is a partition: name public.part"),
                    HasSubstr("tidemark.changelog is the changelog")));
  EXPECT_EQ(Value("SELECT count(*) FROM pg_trigger WHERE tgname LIKE '00_tidemark%'"), "0");
  // A unique index that is its replica identity will do.
  Exec("CREATE TABLE unique_one (a int NOT NULL UNIQUE, v text)");
  Exec("ALTER TABLE unique_one REPLICA IDENTITY USING INDEX unique_one_a_key");
  Install("{unique_one}");
  Exec("INSERT INTO unique_one VALUES (1, 'x'); UPDATE unique_one SET v = 'y'");
  ExpectSame("unique_one", {"a"});
}

TEST_F(ChangelogInstallTest, ItCanBeRunAgainAndTakenAwayAgain) {
  Exec("CREATE TABLE item (id int PRIMARY KEY, v text)");
  Exec("CREATE TABLE other (id int PRIMARY KEY)");
  Exec("CREATE TABLE part (id int PRIMARY KEY) PARTITION BY RANGE (id)");
  Exec("CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10)");
  Exec("INSERT INTO item VALUES (1, 'before'), (2, 'before')");
  Exec("SELECT tidemark.changelog_install('{item}', with_rows => true)");
  ExpectSame("item", {"id"});
  RunFile(*postgres_, "create.sql");
  Install("{item, other, part}");
  Install("{item, other, part}");
  Exec("UPDATE item SET v = 'after' WHERE id = 1");
  EXPECT_EQ(Value("SELECT count(*) FROM tidemark.changelog"), "3") << "noted once";
  Exec("SELECT tidemark.changelog_uninstall('{item}')");
  Exec("DELETE FROM item");
  Exec("INSERT INTO other VALUES (1)");
  EXPECT_EQ(Value("SELECT table_name FROM tidemark.changelog ORDER BY seq DESC LIMIT 1"), "other");
  RunFile(*postgres_, "remove.sql");
  RunFile(*postgres_, "remove.sql");
  EXPECT_EQ(Value("SELECT count(*) FROM pg_trigger WHERE tgname LIKE '00_tidemark%'"), "0");
  EXPECT_EQ(Value("SELECT count(*) FROM pg_namespace WHERE nspname = 'tidemark'"), "0");
  Exec("INSERT INTO other VALUES (2)");
  Exec("INSERT INTO part VALUES (1)");
  Exec("TRUNCATE part1");
}

// A key that the triggers can no longer find is not told wrongly.
TEST_F(ChangelogInstallTest, AKeyWhoseColumnWasRenamedIsRefusedUntilItIsInstalledAnew) {
  Exec("CREATE TABLE item (id int PRIMARY KEY, v text)");
  Install("{item}");
  Exec("ALTER TABLE item RENAME COLUMN id TO ident");
  EXPECT_THAT(Refusal("INSERT INTO item VALUES (1, 'x')"),
              HasSubstr("no longer has every column of its key (id)"));
  Install("{item}");
  Exec("INSERT INTO item VALUES (1, 'x')");
  ExpectSame("item", {"ident"});
}

// What another trigger changes in turn has the higher number, whatever that one is called.
TEST_F(ChangelogInstallTest, WhatATriggerChangesInTurnComesBehind) {
  Exec("CREATE TABLE item (id int PRIMARY KEY, v int)");
  Exec(
      "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v < 3 THEN "
      "UPDATE "
      "item SET v = v + 1 WHERE id = NEW.id; END IF; RETURN NULL; END $$");
  Exec(
      "CREATE TRIGGER \"A first\" AFTER INSERT OR UPDATE ON item FOR EACH ROW EXECUTE FUNCTION "
      "again()");
  Install("{item}");
  Exec("INSERT INTO item VALUES (1, 0)");
  EXPECT_EQ(Value("SELECT string_agg(\"row\"->>'v', ',' ORDER BY seq) FROM tidemark.changelog"),
            "0,1,2,3");
  ExpectSame("item", {"id"});
}

}  // namespace
}  // namespace tidemark::capture
