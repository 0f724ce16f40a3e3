#include "capture/postgres/slot_healing.h"

#include <gtest/gtest.h>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

constexpr Lsn kCheckpoint = 0x1000;

// A feed whose slot stands behind its checkpoint, as after somebody moved it.
struct Healing {
  v1::Checkpoint checkpoint;
  ServerFacts server;
  std::optional<SlotFacts> slot;
  bool publication = true;
  bool keeps_tables = false;

  explicit Healing(std::string_view why = reason::kSlotAdvanced) {
    v1::PostgresCheckpoint* postgres = checkpoint.mutable_postgres();
    postgres->set_system_identifier("7");
    postgres->set_database("shop");
    postgres->set_timeline(1);
    postgres->set_slot("s");
    checkpoint.mutable_broken()->set_reason(std::string(why));
    server = {.system_identifier = "7", .timeline = 1, .database = "shop", .flush_lsn = 0x2000};
    slot = SlotFacts{.name = "s",
                     .type = "logical",
                     .plugin = "pgoutput",
                     .database = "shop",
                     .confirmed_flush = kCheckpoint + 1,
                     .restart = 0x800,
                     .wal_status = "reserved"};
  }
  std::string Says() const {
    const auto decided =
        DecideSlotHealing(checkpoint, kCheckpoint, server, "s", slot, publication, keeps_tables);
    if (!decided.ok()) return ReasonOf(decided.status());
    return *decided == SlotHealing::kMake      ? "make"
           : *decided == SlotHealing::kReplace ? "replace"
                                               : "go on";
  }
};

TEST(SlotHealingTest, ASlotThatIsGoneIsMade) {  // proves R33
  Healing healing(reason::kSlotMissing);
  healing.slot.reset();
  EXPECT_EQ(healing.Says(), "make");
}

TEST(SlotHealingTest, ASlotThatStandsBehindTheCheckpointIsGoneOnWith) {  // proves S47, B057
  Healing healing;
  EXPECT_EQ(healing.Says(), "go on");
  // What a healing that did not come to its end made.
  healing.checkpoint.mutable_broken()->set_reason("SLOT_LOST");
  EXPECT_EQ(healing.Says(), "go on");
  healing.slot->confirmed_flush = kCheckpoint;
  EXPECT_EQ(healing.Says(), "replace") << "it would send again what is stored";
}

TEST(SlotHealingTest, ALostSlotIsMadeAgain) {  // proves R37, B055
  Healing healing(reason::kSlotLost);
  healing.slot->wal_status = "lost";
  EXPECT_EQ(healing.Says(), "replace");
  healing.slot->wal_status = "reserved";
  healing.slot->restart.reset();
  EXPECT_EQ(healing.Says(), "replace");
}

TEST(SlotHealingTest, ASlotOfAnotherHistoryIsMadeAgain) {  // proves S48, B067
  Healing rewound(reason::kSourceRewound);
  EXPECT_EQ(rewound.Says(), "replace");
  Healing promoted(reason::kSourceTimeline);
  promoted.server.timeline = 2;
  EXPECT_EQ(promoted.Says(), "replace");
  promoted.server.timeline = 1;
  EXPECT_EQ(promoted.Says(), "go on") << "the old primary is back, and its slot was moved";
}

TEST(SlotHealingTest, WithoutItsPublicationASlotIsOfNoUse) {  // proves S62
  Healing healing(reason::kPublicationMissing);
  healing.publication = false;
  EXPECT_EQ(healing.Says(), "replace");
}

TEST(SlotHealingTest, NothingForeignIsTouched) {  // proves S27, S60, B061
  Healing healing(reason::kSlotLost);
  healing.slot->wal_status = "lost";
  healing.slot->active_pid = 5;
  EXPECT_EQ(healing.Says(), "SLOT_ACTIVE");
  healing.slot->plugin = "test_decoding";
  EXPECT_EQ(healing.Says(), "SLOT_FOREIGN");
  Healing renamed(reason::kSlotMissing);
  renamed.checkpoint.mutable_postgres()->set_slot("another");
  EXPECT_EQ(renamed.Says(), "SLOT_FOREIGN") << "the configuration names another slot now";
}

TEST(SlotHealingTest, AnotherClusterIsHealedByOrderOnlyAndItsSlotsAreForeign) {  // proves S27, S48
  Healing healing(reason::kSlotMissing);
  healing.server.system_identifier = "8";
  EXPECT_EQ(healing.Says(), "SOURCE_REPLACED");
  healing.checkpoint.mutable_broken()->set_reason(std::string(reason::kSourceReplaced));
  EXPECT_EQ(healing.Says(), "SLOT_FOREIGN");
  healing.slot.reset();
  EXPECT_EQ(healing.Says(), "make");
  // The store noted that it was about to be made.
  healing.slot = Healing().slot;
  healing.checkpoint.mutable_broken()->set_prepared_in(PlaceText(healing.server));
  EXPECT_EQ(healing.Says(), "replace");
}

// proves S27, S48: pg_upgrade brings the slot along, and nothing says so but the tables.
TEST(SlotHealingTest, ASlotThatAnUpgradeCarriedOverIsReplacedByOrder) {
  Healing healing(reason::kSourceReplaced);
  healing.server.system_identifier = "8";
  healing.keeps_tables = true;
  EXPECT_EQ(healing.Says(), "replace");
  healing.slot->active_pid = 5;
  EXPECT_EQ(healing.Says(), "SLOT_ACTIVE");
  healing.slot->active_pid = 0;
  healing.slot->confirmed_flush = kCheckpoint - 1;
  EXPECT_EQ(healing.Says(), "SLOT_FOREIGN") << "the log of an upgraded cluster begins behind it";
  healing.slot->confirmed_flush = kCheckpoint + 1;
  healing.checkpoint.mutable_postgres()->set_slot("another");
  EXPECT_EQ(healing.Says(), "SLOT_FOREIGN");
  healing.checkpoint.mutable_postgres()->set_slot("s");
  healing.checkpoint.mutable_postgres()->set_database("elsewhere");
  EXPECT_EQ(healing.Says(), "SLOT_FOREIGN");
  healing.checkpoint.mutable_postgres()->set_database("shop");
  healing.checkpoint.mutable_broken()->set_reason(std::string(reason::kSlotMissing));
  EXPECT_EQ(healing.Says(), "SOURCE_REPLACED") << "nobody ordered that";
}

TEST(SlotHealingTest, TablesAreKeptUnderTheirOids) {  // proves S27
  std::map<std::pair<std::string, std::string>, v1::TableState> states;
  states[{"public", "a"}].mutable_postgres()->set_oid(100);
  states[{"public", "b"}].mutable_postgres()->set_oid(101);
  states[{"public", "never_seen"}];
  Publication publication;
  EXPECT_FALSE(KeepsTables(states, publication)) << "none says that they are";
  publication.tables.resize(2);
  publication.tables[0].schema = publication.tables[1].schema = "public";
  publication.tables[0].table = "a";
  publication.tables[0].oid = 100;
  publication.tables[1].table = "never_seen";
  publication.tables[1].oid = 500;
  EXPECT_TRUE(KeepsTables(states, publication));
  publication.tables[1].table = "b";
  EXPECT_FALSE(KeepsTables(states, publication));
  EXPECT_FALSE(KeepsTables(states, std::nullopt));
}

}  // namespace
}  // namespace tidemark::capture::postgres
