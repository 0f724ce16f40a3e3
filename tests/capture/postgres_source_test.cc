// What the stream yields for every kind of change.
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class PostgresSourceTest : public PostgresFixture {};

TEST_F(PostgresSourceTest, SnapshotThenStream) {  // proves R01, R02, R04, R38, B047
  Exec("CREATE TABLE t (id int PRIMARY KEY, a text)");
  Exec("INSERT INTO t VALUES (1, 'one'), (2, NULL)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.SnapshotRows(),
              UnorderedElementsAre("read t id=1 a=one", "read t id=2 a=null"));
  EXPECT_EQ(driver.whole->ordinal(), 0u);
  Exec(
      "BEGIN; INSERT INTO t VALUES (3, 'a'); UPDATE t SET a = 'b' WHERE id = 3; UPDATE t SET a = "
      "'c' WHERE id = 3; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (3, 'd'); COMMIT");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_THAT(driver.Changes(),
              ElementsAre("insert t id=3 a=a", "update t id=3 a=b", "update t id=3 a=c",
                          "delete t key(id=3)", "insert t id=3 a=d"));
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(driver.transactions[0].changes[i].sequence, i);
  EXPECT_EQ(driver.transactions[0].record.changes(), 5u);
  EXPECT_GT(driver.transactions[0].position, *driver.whole);
  EXPECT_EQ(driver.schemas.size(), 1u) << "snapshot and stream name one schema";
}

// What a poll may miss: a stamp or a number from before the one that was committed first.
TEST_F(PostgresSourceTest, StampsAndNumbersThatCommitOutOfTheirOrder) {  // proves A21
  Exec("CREATE TABLE t (id int PRIMARY KEY, at int); CREATE SEQUENCE n CACHE 100");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  auto early = postgres_->Connect().value();
  auto late = postgres_->Connect().value();
  ASSERT_TRUE(early->Exec("BEGIN; INSERT INTO t VALUES (1, nextval('n'))").ok());
  ASSERT_TRUE(late->Exec("INSERT INTO t VALUES (2, nextval('n'))").ok());
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  ASSERT_TRUE(early->Exec("COMMIT").ok());
  ASSERT_TRUE(late->Exec("INSERT INTO t VALUES (3, 500)").ok());
  ASSERT_TRUE(early->Exec("INSERT INTO t VALUES (4, 400)").ok());
  ASSERT_TRUE(driver.ReadUntilTransactions(4));
  EXPECT_THAT(driver.Changes(), ElementsAre("insert t id=2 at=101", "insert t id=1 at=1",
                                            "insert t id=3 at=500", "insert t id=4 at=400"));
}

TEST_F(PostgresSourceTest, RecordSaysWhoCommittedWhenAndWhere) {  // proves E1, E6
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  auto session = postgres_->Connect().value();
  ASSERT_TRUE(session->Exec("BEGIN").ok());
  ASSERT_TRUE(session->Exec("INSERT INTO t VALUES (1)").ok());
  const std::string xid = session->QueryValue("SELECT pg_current_xact_id()").value();
  ASSERT_TRUE(session->Exec("COMMIT").ok());
  const double committed = std::stod(Value("SELECT extract(epoch FROM now())"));
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  const SeenTransaction& seen = driver.transactions[0];
  EXPECT_EQ(seen.record.source_transaction_id(), xid);
  EXPECT_EQ(seen.record.origin(), v1::ORIGIN_SOURCE);
  EXPECT_NEAR(static_cast<double>(seen.record.commit_time_us()) / 1e6, committed, 30);
  EXPECT_LT(seen.record.commit_lsn(), seen.position.engine_low());
  EXPECT_EQ(seen.position.generation(), 1u);
  EXPECT_EQ(driver.source().ParseNative(driver.source().NativeText(seen.position), 1).value(),
            seen.position);
  EXPECT_FALSE(driver.source().ParseNative("0/0", 1).ok());
}

// What another replication brought here is committed here, and counts as what is written here.
TEST_F(PostgresSourceTest, CommitsWithAReplicationOriginAreCaptured) {  // proves R22
  Exec("CREATE TABLE t (id int PRIMARY KEY, a int)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  ExecEach({"SELECT pg_replication_origin_create('elsewhere')",
            "SELECT pg_replication_origin_session_setup('elsewhere')",
            "INSERT INTO t VALUES (1, 1)", "BEGIN",
            "SELECT pg_replication_origin_xact_setup('0/1234', now())",
            "INSERT INTO t VALUES (2, 2)", "UPDATE t SET a = 3 WHERE id = 1", "COMMIT"});
  Exec("INSERT INTO t VALUES (4, 4)");
  ASSERT_TRUE(driver.ReadUntilTransactions(3));
  EXPECT_THAT(driver.Changes(), ElementsAre("insert t id=1 a=1", "insert t id=2 a=2",
                                            "update t id=1 a=3", "insert t id=4 a=4"));
  EXPECT_THAT(driver.errors, IsEmpty());
}

TEST_F(PostgresSourceTest, SavepointsTwoPhaseAndMessages) {  // proves B041, B043, E5, E10, S61
  options_.settings = {{"max_prepared_transactions", "5"}};
  SetUp();
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  ExecEach({"BEGIN", "INSERT INTO t VALUES (50)", "SAVEPOINT a", "INSERT INTO t VALUES (51)",
            "ROLLBACK TO a", "INSERT INTO t VALUES (52)", "SAVEPOINT b",
            "INSERT INTO t VALUES (53)", "RELEASE b", "COMMIT"});
  ExecEach({"SELECT pg_logical_emit_message(false, 'p', 'not transactional')", "BEGIN",
            "INSERT INTO t VALUES (60)", "PREPARE TRANSACTION 'g1'",
            "SELECT pg_logical_emit_message(true, 'p', 'transactional')",
            "INSERT INTO t VALUES (61)", "COMMIT PREPARED 'g1'", "BEGIN",
            "INSERT INTO t VALUES (62)", "PREPARE TRANSACTION 'g2'", "ROLLBACK PREPARED 'g2'",
            "INSERT INTO t VALUES (63)"});
  ASSERT_TRUE(driver.ReadUntilCaughtUp(*postgres_));
  EXPECT_THAT(driver.Changes(), ElementsAre("insert t id=50", "insert t id=52", "insert t id=53",
                                            "insert t id=61", "insert t id=60", "insert t id=63"));
  EXPECT_EQ(driver.transactions.size(), 4u);
}

TEST_F(PostgresSourceTest, TruncateInOrderOfTheCommit) {  // proves R46, B016, B023
  Exec("CREATE TABLE a1 (id int PRIMARY KEY)");
  Exec("CREATE TABLE a2 (id int PRIMARY KEY, p int REFERENCES a1)");
  Exec("INSERT INTO a1 VALUES (1); INSERT INTO a2 VALUES (10, 1)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec(
      "BEGIN; INSERT INTO a1 VALUES (3); TRUNCATE a1 RESTART IDENTITY CASCADE; INSERT INTO a1 "
      "VALUES (4); COMMIT");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_THAT(driver.Changes(),
              ElementsAre("insert a1 id=3", "truncate a1", "truncate a2", "insert a1 id=4"));
  EXPECT_EQ(driver.transactions.size(), 1u);
}

TEST_F(PostgresSourceTest, CascadesAreInTheSameCommit) {  // proves B051
  Exec("CREATE TABLE a1 (id int PRIMARY KEY)");
  Exec("CREATE TABLE a2 (id int PRIMARY KEY, p int REFERENCES a1 ON DELETE CASCADE)");
  Exec("INSERT INTO a1 VALUES (1); INSERT INTO a2 VALUES (10, 1)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("DELETE FROM a1 WHERE id = 1");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_THAT(driver.Changes(), ElementsAre("delete a1 key(id=1)", "delete a2 key(id=10)"));
}

TEST_F(PostgresSourceTest, KeyChangeIsDeleteThenInsert) {  // proves R45, B005, B011
  Exec("CREATE TABLE t (id int PRIMARY KEY, a int)");
  Exec("INSERT INTO t VALUES (1, 7)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("UPDATE t SET id = 2 WHERE id = 1");
  Exec("BEGIN; INSERT INTO t VALUES (3001, 8); UPDATE t SET id = 3002 WHERE id = 3001; COMMIT");
  Exec("UPDATE t SET a = a WHERE id = 2");
  ASSERT_TRUE(driver.ReadUntilTransactions(3));
  EXPECT_THAT(driver.Changes(),
              ElementsAre("delete t key_change key(id=1)", "insert t key_change id=2 a=7",
                          "insert t id=3001 a=8", "delete t key_change key(id=3001)",
                          "insert t key_change id=3002 a=8", "update t id=2 a=7"));
  EXPECT_EQ(driver.transactions[1].changes[2].sequence, 2u);
}

TEST_F(PostgresSourceTest, UnchangedToastIsAbsentNeverNull) {  // proves R44, B001
  Exec("CREATE TABLE t (id int PRIMARY KEY, a int, big text)");
  Exec("CREATE TABLE f (id int PRIMARY KEY, a int, big text)");
  Exec(
      "ALTER TABLE t ALTER big SET STORAGE EXTERNAL; ALTER TABLE f ALTER big SET STORAGE "
      "EXTERNAL; ALTER TABLE f REPLICA IDENTITY FULL");
  Exec("INSERT INTO t VALUES (1, 1, repeat('x', 20000)); INSERT INTO f SELECT * FROM t");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("UPDATE t SET a = 2");
  Exec("UPDATE f SET a = 2");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  EXPECT_EQ(driver.transactions[0].changes[0].Text(), "update t id=1 a=2 big=-");
  const v1::Change& full = driver.transactions[1].changes[0].change;
  EXPECT_EQ(full.after(2).text().size(), 20000u) << "recovered from the whole old row";
}

TEST_F(PostgresSourceTest, EveryReplicaIdentity) {  // proves R43, B007, B009
  Exec("CREATE TABLE by_index (a int NOT NULL, b int NOT NULL, c text)");
  Exec("CREATE UNIQUE INDEX by_index_b ON by_index (b)");
  Exec("ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_b");
  Exec("CREATE TABLE whole (a int, b text)");
  Exec("ALTER TABLE whole REPLICA IDENTITY FULL");
  Exec("CREATE TABLE whole_pk (b int, a int, c text, PRIMARY KEY (a, b))");
  Exec("ALTER TABLE whole_pk REPLICA IDENTITY FULL");
  Exec(
      "INSERT INTO by_index VALUES (1, 10, 'x'); INSERT INTO whole VALUES (1, 'd'), (1, 'd'), "
      "(NULL, 'n'); INSERT INTO whole_pk VALUES (2, 1, 'c')");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(driver.snapshot_rows.size(), 2u);
  // Rows without a key go into the log, in one made transaction at the consistent point.
  ASSERT_EQ(driver.transactions.size(), 1u);
  EXPECT_EQ(driver.transactions[0].position, driver.whole->WithOrdinal(1));
  EXPECT_EQ(driver.transactions[0].record.origin(), v1::ORIGIN_SNAPSHOT);
  EXPECT_THAT(driver.Changes(), UnorderedElementsAre("read whole a=1 b=d", "read whole a=1 b=d",
                                                     "read whole a=null b=n"));
  driver.transactions.clear();

  Exec("UPDATE by_index SET b = 11");
  Exec("DELETE FROM by_index");
  Exec("DELETE FROM whole WHERE ctid = (SELECT min(ctid) FROM whole WHERE a = 1)");
  Exec("UPDATE whole SET b = 'z' WHERE a IS NULL");
  Exec("UPDATE whole_pk SET c = 'd'");
  Exec("DELETE FROM whole_pk");
  ASSERT_TRUE(driver.ReadUntilTransactions(6));
  EXPECT_THAT(
      driver.Changes(),
      ElementsAre("delete by_index key_change key(b=10)", "insert by_index key_change a=1 b=11 c=x",
                  "delete by_index key(b=11)", "delete whole before(a=1 b=d)",
                  "update whole a=null b=z before(a=null b=n)",
                  "update whole_pk b=2 a=1 c=d before(b=2 a=1 c=c)",
                  "delete whole_pk before(b=2 a=1 c=d) key(a=1 b=2)"));
  for (const auto& [id, schema] : driver.schemas) {
    EXPECT_EQ(schema.image_level(),
              schema.table_name() == "by_index" ? v1::IMAGE_LEVEL_KEY : v1::IMAGE_LEVEL_FULL);
  }
  EXPECT_EQ(driver.schemas.size(), 3u) << "snapshot and stream name the same schemas";
}

TEST_F(PostgresSourceTest, TablesWithoutIdentityAreNotPublishedBehindTheUsersBack) {
  Exec("CREATE TABLE logline (a int)");
  SourceDriver refused(FeedOf(*postgres_));
  absl::Status status = refused.Open();
  EXPECT_EQ(ReasonOf(status), reason::kSourceSetting);
  EXPECT_THAT(std::string(status.message()), HasSubstr("public.logline"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("REPLICA IDENTITY FULL"));
  EXPECT_EQ(Value("SELECT count(*) FROM pg_publication"), "0");

  Exec("CREATE PUBLICATION tidemark_shop FOR TABLE logline");
  Exec("INSERT INTO logline VALUES (1)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("INSERT INTO logline VALUES (2)");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  EXPECT_THAT(driver.Changes(), ElementsAre("read logline a=1", "insert logline a=2"));
  EXPECT_EQ(driver.schemas.begin()->second.image_level(), v1::IMAGE_LEVEL_NONE);
}

TEST_F(PostgresSourceTest, GeneratedColumnsAreLeftOutOnBothPaths) {  // proves B037
  Exec(
      "CREATE TABLE g (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED, c "
      "text)");
  Exec("INSERT INTO g (id, a, c) VALUES (1, 5, 'x')");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("UPDATE g SET a = 6");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read g id=1 a=5 c=x"));
  EXPECT_THAT(driver.Changes(), ElementsAre("update g id=1 a=6 c=x"));
  EXPECT_EQ(driver.schemas.size(), 1u);
}

TEST_F(PostgresSourceTest, ColumnListAndRowFilterHoldForTheSnapshotToo) {  // proves B053
  if (std::stoi(Value("SHOW server_version_num")) < 150000) GTEST_SKIP() << "needs 15";
  Exec("CREATE TABLE cl (id int PRIMARY KEY, a int, secret text)");
  Exec("INSERT INTO cl VALUES (1, 1, 's3cret'), (2, -2, 's3cret')");
  Exec("CREATE PUBLICATION tidemark_shop FOR TABLE cl (id, a) WHERE (id < 100 AND a > 0)");
  Exec("ALTER TABLE cl REPLICA IDENTITY DEFAULT");
  // A row filter of updates may name columns of the identity only.
  Exec("ALTER PUBLICATION tidemark_shop SET TABLE cl (id, a) WHERE (id = 1)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("UPDATE cl SET secret = 't0p'");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read cl id=1 a=1"));
  EXPECT_THAT(driver.Changes(), ElementsAre("update cl id=1 a=1"));
  EXPECT_EQ(driver.schemas.size(), 1u);
}

TEST_F(PostgresSourceTest, PartitionsArriveUnderTheirRoot) {  // proves B015
  Exec("CREATE TABLE pa (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)");
  Exec("CREATE TABLE pa1 PARTITION OF pa FOR VALUES FROM (0) TO (10)");
  Exec("INSERT INTO pa VALUES (1, 'a')");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("CREATE TABLE pa2 PARTITION OF pa FOR VALUES FROM (10) TO (20)");
  Exec("INSERT INTO pa VALUES (2, 'b'), (12, 'c')");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read pa id=1 v=a"));
  EXPECT_THAT(driver.Changes(), ElementsAre("insert pa id=2 v=b", "insert pa id=12 v=c"));
}

TEST_F(PostgresSourceTest, NamesThatNeedQuoting) {  // proves R42, B084, S31
  ExecEach({"CREATE SCHEMA \"We.ird \"\"T\"\"\"",
            "CREATE TABLE \"We.ird \"\"T\"\"\".\"a.b+c[1]\" (\"Col ,;\xc3\xa9\" int PRIMARY KEY, "
            "\"it's\" text)",
            "INSERT INTO \"We.ird \"\"T\"\"\".\"a.b+c[1]\" VALUES (1, 'x')"});
  v1::FeedConfig config = FeedOf(*postgres_, {"\"We.ird \"\"T\"\"\".\"a.b+c[1]\""});
  config.mutable_postgres()->set_publication("Pub \"lication'");
  SourceDriver driver(config);
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("UPDATE \"We.ird \"\"T\"\"\".\"a.b+c[1]\" SET \"it's\" = 'y'");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read a.b+c[1] Col ,;\xc3\xa9=1 it's=x"));
  EXPECT_THAT(driver.Changes(), ElementsAre("update a.b+c[1] Col ,;\xc3\xa9=1 it's=y"));
  EXPECT_EQ(driver.schemas.begin()->second.schema_name(), "We.ird \"T\"");

  v1::FeedConfig capitals = FeedOf(*postgres_, {"public.\"T\""});
  capitals.set_name("capitals");
  SourceDriver case_differs(capitals);
  EXPECT_EQ(ReasonOf(case_differs.Open()), reason::kSourceTableMissing);
}

TEST_F(PostgresSourceTest, UnwantedTablesOfThePublicationCountButAreNotKept) {  // proves R22, R29
  ExecEach({"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)",
            "CREATE PUBLICATION tidemark_shop FOR TABLE a, b"});
  SourceDriver driver(FeedOf(*postgres_, {"public.b"}));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec(
      "BEGIN; INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); UPDATE a SET id = 2; INSERT "
      "INTO b VALUES (2); COMMIT");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  ASSERT_EQ(driver.transactions[0].changes.size(), 2u);
  EXPECT_EQ(driver.transactions[0].changes[0].sequence, 1u);
  EXPECT_EQ(driver.transactions[0].changes[1].sequence, 4u) << "a change of key counts twice";
  EXPECT_EQ(driver.transactions[0].record.changes(), 5u);
  Exec("INSERT INTO a VALUES (7)");
  ASSERT_TRUE(driver.ReadUntilCaughtUp(*postgres_));
  EXPECT_EQ(driver.transactions.size(), 1u);
}

// proves R23: the publication in force when a commit was written decides what is counted; changing
// it begins no new generation.
TEST_F(PostgresSourceTest, APublicationChangedByHandRenumbersFromThereOn) {
  ExecEach({"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)",
            "CREATE PUBLICATION tidemark_shop FOR TABLE a, b"});
  SourceDriver driver(FeedOf(*postgres_, {"public.b"}));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("BEGIN; INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); COMMIT");
  Exec("ALTER PUBLICATION tidemark_shop DROP TABLE a");
  Exec("BEGIN; INSERT INTO a VALUES (2); INSERT INTO b VALUES (2); COMMIT");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  ASSERT_EQ(driver.transactions[0].changes.size(), 1u);
  EXPECT_EQ(driver.transactions[0].changes[0].sequence, 1u);
  ASSERT_EQ(driver.transactions[1].changes.size(), 1u);
  EXPECT_EQ(driver.transactions[1].changes[0].sequence, 0u);
  EXPECT_EQ(driver.transactions[0].position.generation(),
            driver.transactions[1].position.generation());
  EXPECT_LT(driver.transactions[0].position, driver.transactions[1].position);
}

TEST_F(PostgresSourceTest, RowsOffGoIntoTheLog) {
  ExecEach({"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)",
            "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)"});
  v1::FeedConfig config = FeedOf(*postgres_);
  config.add_rows_off("public.b");
  SourceDriver driver(config);
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read a id=1"));
  EXPECT_THAT(driver.Changes(), ElementsAre("read b id=2"));
  EXPECT_EQ(Position::FromBytes(driver.checkpoint.position())->ordinal(), 1u);
  Exec("INSERT INTO b VALUES (3)");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
}

TEST_F(PostgresSourceTest, LargeTransactionsComeInParts) {  // proves B049, R28
  Exec("CREATE TABLE t (id int PRIMARY KEY, a text)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 50000) i");
  Exec("INSERT INTO t VALUES (0, 'small')");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  EXPECT_TRUE(driver.transactions[0].large);
  EXPECT_GT(driver.large_parts, 3u);
  ASSERT_EQ(driver.transactions[0].changes.size(), 50000u);
  EXPECT_EQ(driver.transactions[0].record.changes(), 50000u);
  for (size_t i = 0; i < 50000; ++i) {
    ASSERT_EQ(driver.transactions[0].changes[i].sequence, i);
  }
  EXPECT_FALSE(driver.transactions[1].large);
}

TEST_F(PostgresSourceTest, SchemaChangesHoldFromTheirPlaceOn) {  // proves R51, B019
  Exec("CREATE TABLE t (id int PRIMARY KEY, w int)");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  ExecEach({"INSERT INTO t VALUES (1, 7)", "BEGIN", "INSERT INTO t VALUES (2, 8)",
            "ALTER TABLE t DROP COLUMN w", "ALTER TABLE t ADD COLUMN w text",
            "INSERT INTO t VALUES (3, 't')", "COMMIT", "CREATE TYPE mood AS ENUM ('sad', 'happy')",
            "ALTER TABLE t ADD COLUMN m mood", "INSERT INTO t VALUES (4, 'u', 'happy')"});
  ASSERT_TRUE(driver.ReadUntilTransactions(3));
  EXPECT_THAT(driver.Changes(), ElementsAre("insert t id=1 w=7", "insert t id=2 w=8",
                                            "insert t id=3 w=t", "insert t id=4 w=u m=happy"));
  EXPECT_EQ(driver.transactions[1].record.schema_ids_size(), 2);
  EXPECT_EQ(driver.schemas.size(), 3u);
}

TEST_F(PostgresSourceTest, QuietTablesMakeNoTransactionsButProgress) {  // proves E9, S55, B059, R31
  ExecEach({"CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int, a text)",
            "CREATE DATABASE elsewhere"});
  SourceDriver driver(FeedOf(*postgres_, {"public.t"}));
  ASSERT_TRUE(driver.ReadUntilWhole());
  auto elsewhere = postgres_->Connect("elsewhere").value();
  ASSERT_TRUE(elsewhere->Exec("CREATE TABLE x (a text)").ok());
  const std::string restart = Value("SELECT restart_lsn FROM pg_replication_slots");
  for (int i = 0; i < 6; ++i) {
    Exec("INSERT INTO other SELECT i, repeat('x', 1000) FROM generate_series(1, 8000) i");
    ASSERT_TRUE(elsewhere
                    ->Exec("INSERT INTO x SELECT repeat('y', 1000) FROM generate_series(1, "
                           "8000)")
                    .ok());
    ASSERT_TRUE(driver.ReadUntilCaughtUp(*postgres_));
  }
  EXPECT_THAT(driver.Changes(), IsEmpty());
  // The slot moves without any help from user writes.
  ASSERT_TRUE(driver.ReadUntil([&] {
    return std::stoll(Value("SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::bigint FROM "
                            "pg_replication_slots")) < (4 << 20) &&
           Value("SELECT restart_lsn FROM pg_replication_slots") != restart;
  }));
}

}  // namespace
}  // namespace tidemark::capture
