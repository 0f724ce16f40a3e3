// The decisions of the PostgreSQL source that need no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/postgres/relation_cache.h"
#include "capture/postgres/server_error.h"
#include "capture/postgres/server_facts.h"
#include "capture/postgres/slot.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/standby_replies.h"
#include "capture/postgres/target.h"
#include "capture/source.h"
#include "capture/source_factory.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Lsn kCheckpoint = 0x1000;

struct Resume {
  v1::PostgresCheckpoint checkpoint;
  ServerFacts server;
  std::optional<SlotFacts> slot;

  Resume() {
    checkpoint.set_system_identifier("7");
    checkpoint.set_database("shop");
    checkpoint.set_timeline(1);
    server = {.system_identifier = "7", .timeline = 1, .database = "shop", .flush_lsn = 0x2000};
    slot = SlotFacts{.name = "s",
                     .type = "logical",
                     .plugin = "pgoutput",
                     .database = "shop",
                     .confirmed_flush = kCheckpoint,
                     .restart = 0x800,
                     .wal_status = "reserved"};
  }
  std::string Reason() const {
    return ReasonOf(CheckResume(checkpoint, kCheckpoint, server, "s", slot));
  }
};

TEST(CheckResumeTest, GoesOnOnlyExactlyBehindTheCheckpoint) {  // proves S47, S48, S60, E8, B057
  Resume resume;
  EXPECT_EQ(resume.Reason(), "");
  resume.slot->confirmed_flush = kCheckpoint - 1;
  EXPECT_EQ(resume.Reason(), "") << "confirmed less than is durable: sent again, and skipped here";
  resume.slot->confirmed_flush = kCheckpoint + 1;
  EXPECT_EQ(resume.Reason(), reason::kSlotAdvanced);
  resume.server.flush_lsn = kCheckpoint;
  resume.slot->confirmed_flush = kCheckpoint;
  EXPECT_EQ(resume.Reason(), "");
  resume.server.flush_lsn = kCheckpoint - 1;
  EXPECT_EQ(resume.Reason(), reason::kSourceRewound);
}

TEST(CheckResumeTest, NamesTheFirstThingThatIsWrong) {
  Resume resume;
  resume.slot->active_pid = 7;
  EXPECT_EQ(resume.Reason(), reason::kSlotActive);
  resume.slot->confirmed_flush = kCheckpoint + 1;
  EXPECT_EQ(resume.Reason(), reason::kSlotAdvanced);
  resume.slot->wal_status = "lost";
  EXPECT_EQ(resume.Reason(), reason::kSlotLost);
  resume.slot->plugin = "wal2json";
  EXPECT_EQ(resume.Reason(), reason::kSlotForeign);
  resume.slot.reset();
  EXPECT_EQ(resume.Reason(), reason::kSlotMissing);
  resume.server.flush_lsn = 1;
  EXPECT_EQ(resume.Reason(), reason::kSourceRewound);
  resume.server.timeline = 2;
  EXPECT_EQ(resume.Reason(), reason::kSourceTimeline);
  resume.server.database = "other";
  EXPECT_EQ(resume.Reason(), reason::kSourceReplaced);
}

// proves B067, S48: a failover that undid nothing is none to the feed.
TEST(CheckResumeTest, GoesOnWhereNothingThatWasCapturedWasUndone) {
  Resume resume;
  resume.server.timeline = 3;
  resume.server.history = {{1, kCheckpoint}, {2, kCheckpoint + 0x100}};
  EXPECT_EQ(resume.Reason(), "");
  resume.slot->confirmed_flush = kCheckpoint + 1;
  EXPECT_EQ(resume.Reason(), reason::kSlotAdvanced);
  resume.slot.reset();
  EXPECT_EQ(resume.Reason(), reason::kSlotMissing) << "nobody kept a copy of the slot";
  resume.server.history = {{1, kCheckpoint - 1}, {2, kCheckpoint + 0x100}};
  const absl::Status diverged =
      CheckResume(resume.checkpoint, kCheckpoint, resume.server, "s", resume.slot);
  EXPECT_EQ(ReasonOf(diverged), reason::kSourceTimeline);
  EXPECT_THAT(std::string(diverged.message()), AllOf(HasSubstr("0/FFF"), HasSubstr("0/1000")));
  EXPECT_EQ(DetailsOf(diverged)["left_at"], "0/FFF");
}

// proves R55: a standby answers before it has replayed what it has; only what it gets from its
// primary after that tells that it is of an older state.
TEST(CheckResumeTest, AStandbyThatWasStartedIsWaitedFor) {
  Resume resume;
  resume.checkpoint.set_timeline(2);
  resume.server.in_recovery = true;
  resume.server.flush_lsn = kCheckpoint - 1;
  EXPECT_EQ(resume.Reason(), reason::kSourceUnreachable);
  resume.server.flush_lsn = kCheckpoint;
  EXPECT_EQ(resume.Reason(), reason::kSourceUnreachable) << "it is on the old timeline still";
  resume.server.timeline = 2;
  EXPECT_EQ(resume.Reason(), "");
  resume.server.receiving = true;
  resume.server.flush_lsn = kCheckpoint - 1;
  EXPECT_EQ(resume.Reason(), reason::kSourceRewound);
}

TEST(CheckResumeTest, ALostSlotSaysWhy) {  // proves B055, R57
  Resume resume;
  resume.server.in_recovery = true;
  resume.slot->wal_status = "lost";
  const auto text = [&] {
    return std::string(
        CheckResume(resume.checkpoint, kCheckpoint, resume.server, "s", resume.slot).message());
  };
  EXPECT_THAT(text(), HasSubstr("max_slot_wal_keep_size"));
  for (const char* conflict : {"rows_removed", "conflict"}) {
    resume.slot->invalidation = conflict;
    EXPECT_THAT(text(), HasSubstr("hot_standby_feedback")) << conflict;
  }
  resume.slot->invalidation = "wal_level_insufficient";
  EXPECT_THAT(text(), HasSubstr("wal_level of the primary"));
  resume.slot->invalidation = "idle_timeout";
  EXPECT_THAT(text(), HasSubstr("idle_replication_slot_timeout"));
  resume.slot->invalidation = "something_new";
  EXPECT_THAT(text(), HasSubstr("something_new"));
  EXPECT_EQ(resume.Reason(), reason::kSlotLost);
}

TEST(SlotLostRemedyTest, EveryCauseHasOne) {  // proves R57
  SlotFacts slot;
  EXPECT_THAT(SlotLostRemedy(slot, false), HasSubstr("max_slot_wal_keep_size"));
  slot.invalidation = "wal_removed";
  EXPECT_THAT(SlotLostRemedy(slot, true), HasSubstr("max_slot_wal_keep_size"));
  slot.invalidation = "rows_removed";
  EXPECT_THAT(SlotLostRemedy(slot, true), HasSubstr("hot_standby_feedback = on"));
  slot.invalidation = "wal_level_insufficient";
  EXPECT_THAT(SlotLostRemedy(slot, true), HasSubstr("wal_level = logical"));
  slot.invalidation = "idle_timeout";
  EXPECT_THAT(SlotLostRemedy(slot, false), HasSubstr("idle_replication_slot_timeout = 0"));
}

TEST(CheckResumeTest, SlotWithoutPositionsIsLost) {  // proves B067
  Resume resume;
  resume.slot->confirmed_flush.reset();
  EXPECT_EQ(resume.Reason(), reason::kSlotLost);
  resume = Resume();
  resume.slot->restart.reset();
  EXPECT_EQ(resume.Reason(), reason::kSlotLost);
}

TEST(CheckServerTest, OldServersStandbysAndSettings) {  // proves P18, R55, R57
  ServerFacts facts{.version = 120010, .wal_level = "logical"};
  EXPECT_EQ(ReasonOf(CheckServer(facts)), reason::kSourceVersion);
  facts.version = 130000;
  EXPECT_TRUE(CheckServer(facts).ok());
  facts.wal_level = "replica";
  EXPECT_EQ(ReasonOf(CheckServer(facts)), reason::kSourceSetting);
  facts.wal_level = "logical";
  facts.in_recovery = true;
  facts.version = 150020;
  EXPECT_EQ(ReasonOf(CheckServer(facts)), reason::kSourceVersion);
  EXPECT_THAT(std::string(CheckServer(facts).message()),
              AllOf(HasSubstr("standby of PostgreSQL 15"), HasSubstr("version 16")));
  facts.version = 160000;
  EXPECT_TRUE(CheckServer(facts).ok());
}

struct ErrorCase {
  const char* sqlstate;
  const char* message;
  std::string_view reason;
  bool retried;
};

TEST(ServerErrorTest, EveryErrorHasItsReason) {  // proves R54, S60
  for (const ErrorCase& c : {
           ErrorCase{"", "connection refused", reason::kSourceUnreachable, true},
           {"", "FATAL:  password authentication failed for user \"u\"",
            reason::kSourceAuthentication, true},
           {"", "FATAL:  no pg_hba.conf entry for host", reason::kSourceAuthentication, true},
           {"", "FATAL:  role \"u\" does not exist", reason::kSourceAuthentication, true},
           {"", "server does not support SSL, but SSL was required", reason::kSourceAuthentication,
            true},
           {"", "FATAL:  database \"d\" does not exist", reason::kSourceSetting, false},
           {"", "FATAL:  unsupported startup parameter: replication", reason::kSourceSetting,
            false},
           {"", "FATAL:  must be superuser or replication role to start walsender",
            reason::kSourcePrivilege, false},
           {"", "FATAL:  permission denied to start WAL sender", reason::kSourcePrivilege, false},
           {"42501", "permission denied for table t", reason::kSourcePrivilege, false},
           {"55006", "replication slot \"s\" is active for PID 7", reason::kSlotActive, true},
           {"42704", "replication slot \"s\" does not exist", reason::kSlotMissing, false},
           {"42704", "publication \"p\" does not exist", reason::kPublicationMissing, false},
           {"42710", "replication slot \"s\" already exists", reason::kSlotForeign, false},
           {"55000", "can no longer get changes from replication slot \"s\"", reason::kSlotLost,
            false},
           {"55000",
            "can no longer access replication slot \"s\" (This replication slot has been "
            "invalidated due to \"rows_removed\".)",
            reason::kSlotLost, false},
           {"55000",
            "cannot use replication slot \"s\" for logical decoding (This replication slot is "
            "being synchronized from the primary server.)",
            reason::kSourceUnreachable, true},
           {"40001", "terminating connection due to conflict with recovery",
            reason::kSourceUnreachable, true},
           {"42704", "snapshot \"00000003-1\" does not exist", reason::kSourceUnreachable, true},
           {"22023", "invalid snapshot identifier: \"00000003-1\"", reason::kSourceUnreachable,
            true},
           {"55000", "logical decoding requires wal_level >= logical", reason::kSourceSetting,
            false},
           {"55000", "replication slot \"s\" was not created in this database",
            reason::kSlotForeign, false},
           {"58P01", "requested WAL segment 000000010000000000000001 has already been removed",
            reason::kSlotLost, false},
           {"53400", "all replication slots are in use", reason::kSlotsExhausted, false},
           {"53300", "sorry, too many clients already", reason::kSourceUnreachable, true},
           {"57P01", "terminating connection due to administrator command",
            reason::kSourceUnreachable, true},
           {"42P01", "relation \"t\" does not exist", reason::kSourceTableMissing, false},
           {"22P05", "character has no equivalent", reason::kSourceProtocol, false},
       }) {
    absl::Status status =
        StatusOf({.sqlstate = c.sqlstate, .message = c.message, .doing = "testing"});
    EXPECT_EQ(ReasonOf(status), c.reason) << c.message;
    EXPECT_EQ(IsRetried(status), c.retried) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("testing"));
  }
}

TEST(StandbyRepliesTest, KeepsWrittenAndFlushedApart) {  // proves K9, S49, S54
  const absl::Time start = absl::FromUnixSeconds(1000);
  StandbyReplies replies(100, absl::Seconds(60), start);
  EXPECT_LE(replies.NextDue(), start) << "the first reply at once";
  replies.Heard(500);
  StandbyStatus status = replies.Take(start, false);
  EXPECT_EQ(status.written, 500u);
  EXPECT_EQ(status.flushed, 100u);
  EXPECT_EQ(status.applied, 100u);
  EXPECT_EQ(replies.NextDue(), start + kReplyPeriodMax);
  replies.Confirmed(300);
  EXPECT_EQ(replies.NextDue(), start + kConfirmSpacing);
  EXPECT_TRUE(replies.owes_confirmation());
  EXPECT_EQ(replies.Take(start, false).flushed, 300u);
  EXPECT_FALSE(replies.owes_confirmation());
  replies.Confirmed(200);
  replies.Heard(400);
  status = replies.Take(start, true);
  EXPECT_EQ(status.flushed, 300u) << "never back";
  EXPECT_EQ(status.written, 500u);
  EXPECT_TRUE(status.reply_requested);
  // A server that asks while something is not durable is told nothing of it, once it knows what is.
  replies.Requested();
  status = replies.Take(start, false);
  EXPECT_EQ(status.flushed, 0u);
  EXPECT_EQ(status.written, 500u);
  replies.Confirmed(400);
  replies.Requested();
  EXPECT_EQ(replies.Take(start, false).flushed, 400u);
  EXPECT_EQ(replies.Take(start, false).flushed, 400u) << "not asked for";
  replies.Confirmed(500);
  replies.Take(start, false);
  replies.Requested();
  EXPECT_EQ(replies.Take(start, false).flushed, 500u);
}

TEST(StandbyRepliesTest, RepliesBeforeTheServerLosesPatience) {  // proves B063
  const absl::Time start = absl::FromUnixSeconds(1000);
  StandbyReplies hasty(0, absl::Seconds(3), start);
  hasty.Take(start, false);
  EXPECT_EQ(hasty.NextDue(), start + absl::Seconds(1));
  StandbyReplies patient(0, absl::ZeroDuration(), start);
  patient.Take(start, false);
  EXPECT_EQ(patient.NextDue(), start + kReplyPeriodMax);
  patient.Requested();
  EXPECT_LE(patient.NextDue(), start);
}

RelationDescription Described(char identity, std::vector<DescribedColumn> columns) {
  return {.oid = 1,
          .schema_name = "public",
          .table_name = "t",
          .replica_identity = identity,
          .columns = std::move(columns)};
}

TEST(BuildRelationTest, KeyFollowsTheIdentity) {  // proves B007, R43
  const TypeCatalog types;
  const std::vector<std::string> ba = {"b", "a"};
  const std::vector<std::string> none;
  const auto keys = [&](char identity, bool a, bool b, bool c, const std::vector<std::string>& pk,
                        const std::vector<std::string>& index) {
    const Relation relation =
        BuildRelation(Described(identity, {{"a", 23, -1, a}, {"b", 23, -1, b}, {"c", 25, -1, c}}),
                      pk, index, types);
    return std::vector<uint32_t>(relation.schema.key_columns().begin(),
                                 relation.schema.key_columns().end());
  };
  EXPECT_THAT(keys('d', true, true, false, ba, none), ElementsAre(1, 0)) << "order of the index";
  EXPECT_THAT(keys('d', true, true, false, {"a"}, none), ElementsAre(0, 1))
      << "the catalog has moved on: order of the columns";
  EXPECT_THAT(keys('d', false, false, false, none, none), ElementsAre());
  EXPECT_THAT(keys('i', false, true, true, {"a"}, {"c", "b"}), ElementsAre(2, 1));
  EXPECT_THAT(keys('f', true, true, true, ba, none), ElementsAre(1, 0));
  EXPECT_THAT(keys('f', true, true, true, none, none), ElementsAre());
  EXPECT_THAT(keys('f', true, true, true, {"a", "gone"}, none), ElementsAre());
}

TEST(SqlTextTest, QuotesWhatIsGiven) {
  EXPECT_EQ(QuoteIdentifier("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(QuoteLiteral("it's \\"), "'it''s \\'");
  EXPECT_EQ(QuoteTable("s.t", "T"), "\"s.t\".\"T\"");
}

TEST(TargetTest, FillsInDefaults) {  // proves R56
  v1::FeedConfig config;
  config.set_name("my-shop");
  config.mutable_postgres()->set_host("db.example");
  config.mutable_postgres()->set_password("secret");
  const Target target = TargetOf(config);
  EXPECT_EQ(target.port, 5432u);
  EXPECT_EQ(target.sslmode, "verify-full");
  EXPECT_EQ(target.application_name, "tidemark/my-shop");
  EXPECT_THAT(target.Text(), Not(HasSubstr("secret")));
  EXPECT_EQ(SlotName(config), "tidemark_my_shop");
  EXPECT_EQ(PublicationName(config), "tidemark_my_shop");
  for (const char* local : {"", "/run/postgresql", "localhost", "127.0.0.1", "::1"}) {
    config.mutable_postgres()->set_host(local);
    EXPECT_EQ(TargetOf(config).sslmode, "prefer") << local;
  }
  config.mutable_postgres()->set_password_file("/nowhere/at/all");
  EXPECT_EQ(ReasonOf(PasswordOf(TargetOf(config)).status()), reason::kSourceAuthentication);
}

TEST(SourceFactoryTest, RefusesWhatMakesNoSource) {
  v1::FeedConfig config;
  config.set_name("shop");
  EXPECT_EQ(ReasonOf(MakeSource(config).status()), reason::kConfigInvalid);
  EXPECT_EQ(CheckSource(config).at(0).reason, reason::kConfigInvalid);
  config.mutable_postgres()->add_tables("Public.T");
  EXPECT_EQ(ReasonOf(MakeSource(config).status()), reason::kConfigInvalid);
  config.mutable_postgres()->clear_tables();
  config.add_rows_off("nodot");
  EXPECT_EQ(ReasonOf(MakeSource(config).status()), reason::kConfigInvalid);
  config.clear_rows_off();
  const auto source = MakeSource(config);
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE((*source)->Describe().replays_exactly);
}

}  // namespace
}  // namespace tidemark::capture::postgres
