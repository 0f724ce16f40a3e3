// A changelog that is read from a standby: what its snapshots leave out, and what can be trusted.
#include "capture/source_factory.h"
#include "tests/capture/changelog_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class ChangelogStandbyTest : public ChangelogFixture {
 protected:
  void SetUp() override {
    ChangelogFixture::SetUp();
    Exec("CREATE TABLE item (id int PRIMARY KEY, v text)");
    Install("{item}");
    auto standby = testing::LivePostgres::CreateStandby(*postgres_);
    ASSERT_TRUE(standby.ok()) << standby.status();
    standby_ = *std::move(standby);
  }
  void WaitUntilReplayed() {
    const std::string end = Value("SELECT pg_current_wal_flush_lsn()");
    ASSERT_TRUE(testing::WaitUntil(
        [&] { return OnStandby("SELECT pg_last_wal_replay_lsn() >= '" + end + "'") == "t"; }, 30s));
  }
  std::string OnStandby(const std::string& sql) { return standby_->QueryValue(sql).value_or(""); }

  std::unique_ptr<testing::LivePostgres> standby_;
};

// proves P35, X1: a transaction that stays open across two pulls is told when it has ended.
TEST_F(ChangelogStandbyTest, ATransactionThatStaysOpenAcrossPullsIsNotLost) {
  SourceDriver driver(ChangelogOf(*standby_, "xid_watermark"));
  Exec("INSERT INTO item VALUES (1, 'first')");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  auto open = Session();
  Do(open, "BEGIN");
  Do(open, "INSERT INTO item VALUES (2, 'open')");
  Exec("INSERT INTO item VALUES (3, 'later')");
  WaitUntilReplayed();
  ASSERT_TRUE(Pulled(driver));
  ASSERT_TRUE(Pulled(driver));
  EXPECT_EQ(driver.transactions.size(), 1u);
  ASSERT_TRUE(driver.ReadUntil([&] { return driver.Status().changelog().waiting_rows() == 1; }));
  EXPECT_THAT(driver.Status().changelog().held_by(), HasSubstr("of the primary"));
  // Why the other strategy would lose it: as the standby prints its snapshot, nobody is in
  // progress.
  const std::string xid = open->QueryValue("SELECT pg_current_xact_id()").value_or("");
  const std::string snapshot = OnStandby("SELECT pg_current_snapshot()");
  EXPECT_EQ(OnStandby("SELECT pg_snapshot_xmin('" + snapshot + "'::pg_snapshot)"), xid);
  EXPECT_EQ(OnStandby("SELECT pg_visible_in_snapshot('" + xid + "'::xid8, '" + snapshot +
                      "'::pg_snapshot)"),
            "t");
  Do(open, "COMMIT");
  ASSERT_TRUE(driver.ReadUntilTransactions(3));
  EXPECT_THAT(Rows(driver)[1], HasSubstr("open"));
  EXPECT_THAT(Rows(driver)[2], HasSubstr("later"));
  // Pulls there assign nothing, as nothing can be.
  driver.Restart();
  Exec("INSERT INTO item VALUES (4, 'last')");
  ASSERT_TRUE(driver.ReadUntilTransactions(4));
  EXPECT_EQ(Folded(driver, "item"), Held("item", {"id"}));
}

// proves P35
TEST_F(ChangelogStandbyTest, TheSnapshotStrategyIsRefusedThereByName) {
  SourceDriver driver(ChangelogOf(*standby_));
  const absl::Status opened = driver.Open();
  EXPECT_EQ(ReasonOf(opened), reason::kChangelogUnusable);
  EXPECT_THAT(std::string(opened.message()), HasSubstr("strategy: xid_watermark"));
  const auto findings = CheckSource(ChangelogOf(*standby_));
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].reason, reason::kChangelogUnusable);
}

// A server that took the place of another one may lack what was told, and give out its ids again.
TEST_F(ChangelogStandbyTest, APromotedStandbyIsAnotherHistory) {
  SourceDriver driver(ChangelogOf(*postgres_));
  Exec("INSERT INTO item VALUES (1, 'first')");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  ASSERT_TRUE(Pulled(driver));
  WaitUntilReplayed();
  ASSERT_TRUE(standby_->Promote().ok());
  SourceDriver promoted(ChangelogOf(*standby_));
  promoted.checkpoint = driver.checkpoint;
  EXPECT_EQ(ReasonOf(promoted.Open()), reason::kSourceTimeline);
}

}  // namespace
}  // namespace tidemark::capture
