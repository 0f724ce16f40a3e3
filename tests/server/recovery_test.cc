#include "server/recovery.h"

#include <gmock/gmock.h>

#include <map>

#include "proto/reason.h"
#include "server/gap_rules.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr v1::RecoveryPolicy kStop = v1::RECOVERY_POLICY_STOP;
constexpr v1::RecoveryPolicy kResnapshot = v1::RECOVERY_POLICY_RESNAPSHOT;
constexpr v1::RecoveryPolicy kGap = v1::RECOVERY_POLICY_GAP_AND_CONTINUE;

TEST(RecoveryTest, WordsAreThoseOfTheConfiguration) {
  for (const std::string& word : RecoveryWords()) {
    EXPECT_EQ(RecoveryWord(RecoveryPolicyOf(word)), word);
  }
  EXPECT_EQ(RecoveryPolicyOf(""), kStop);
  EXPECT_EQ(RecoveryPolicyOf("Resnapshot"), kStop);
}

// proves R33, R37, S60, B055, B067: what heals by itself, what only by a person's order, what
// never.
TEST(RecoveryTest, EveryReasonHasAnAnswer) {
  struct Answers {
    BreakAnswer stop;
    BreakAnswer heals;
    bool by_order;
  };
  const Answers lasting = {BreakAnswer::kStop, BreakAnswer::kHeal, true};
  const Answers never = {BreakAnswer::kNoBreak, BreakAnswer::kNoBreak, false};
  const std::map<std::string_view, Answers> expected = {
      {reason::kSlotMissing, lasting},
      {reason::kSlotLost, lasting},
      {reason::kSlotAdvanced, lasting},
      {reason::kSourceTimeline, lasting},
      {reason::kPublicationMissing, lasting},
      // The log grows past what is stored, and nothing shows any more.
      {reason::kSourceRewound, {BreakAnswer::kNoteAndStop, BreakAnswer::kHeal, true}},
      // A wrong address looks the same.
      {reason::kSourceReplaced, {BreakAnswer::kStop, BreakAnswer::kStop, true}},
      {reason::kSlotActive, never},
      {reason::kSlotForeign, never},
      {reason::kSlotsExhausted, never},
      {reason::kSourceUnreachable, never},
      {reason::kSourceSilent, never},
      {reason::kSourcePrivilege, never},
      {reason::kSourceSetting, never},
      {reason::kSourceProtocol, never},
      {reason::kStoreFull, never},
      {"", never}};
  for (const auto& [why, answers] : expected) {
    EXPECT_EQ(AnswerTo(why, kStop), answers.stop) << why;
    EXPECT_EQ(AnswerTo(why, v1::RECOVERY_POLICY_UNSPECIFIED), answers.stop) << why;
    EXPECT_EQ(AnswerTo(why, kResnapshot), answers.heals) << why;
    EXPECT_EQ(AnswerTo(why, kGap), answers.heals) << why;
    EXPECT_EQ(IsBreak(why), answers.by_order) << why;
  }
}

TEST(RecoveryTest, TheRemedyIsACommand) {
  EXPECT_THAT(BreakRemedy(reason::kSlotLost, "shop", "postgres"),
              HasSubstr("run: tidemark recover shop --policy resnapshot"));
  EXPECT_THAT(BreakRemedy(reason::kSlotLost, "shop", "postgres"), Not(HasSubstr("primary")));
  EXPECT_THAT(BreakRemedy(reason::kSourceTimeline, "shop", "postgres"), HasSubstr("old primary"));
  EXPECT_THAT(BreakRemedy(reason::kSourceReplaced, "shop", "postgres"), HasSubstr("address"));
}

// What a recovery does is not the same for every engine, nor are both policies taken by each.
TEST(RecoveryTest, TheRemedySaysWhatComesOfIt) {
  const std::string log = BreakRemedy(reason::kSourceRewound, "shop", "postgres");
  EXPECT_THAT(log, HasSubstr("every table is read again"));
  EXPECT_THAT(log, HasSubstr("gap_and_continue"));
  const std::string polled = BreakRemedy(reason::kSourceRewound, "shop", "poll");
  EXPECT_THAT(polled, HasSubstr("every table is read again"));
  EXPECT_THAT(polled, Not(HasSubstr("gap_and_continue")));
  const std::string changelog = BreakRemedy(reason::kSourceRewound, "shop", "changelog");
  EXPECT_THAT(changelog, HasSubstr("everything that the changelog holds is told again"));
  EXPECT_THAT(changelog, Not(HasSubstr("table is read")));
  for (const std::string& text : {log, polled, changelog}) {
    EXPECT_THAT(text, HasSubstr("tidemark recover shop --policy resnapshot"));
  }
}

v1::StopRecord Stop(const std::string& requested, std::optional<uint64_t> bound) {
  v1::StopRecord stop;
  stop.set_requested(requested);
  if (bound) stop.set_bound(std::string(Position::Of(1, *bound).bytes()));
  return stop;
}

// A position stays the one that was asked for; what was looked up in a history that broke off is
// looked up again.
TEST(GapRulesTest, AnEndThatWasSetBeforeTheGap) {  // proves S38
  const v1::StopRecord native = StopBehindGap(Stop("0/5", 5), 2);
  EXPECT_EQ(*Position::FromBytes(native.bound()), Position::Of(2, uint64_t{5}));
  EXPECT_EQ(native.requested(), "0/5");
  EXPECT_EQ(StopBehindGap(Stop("now", 5), 2).bound(), "");
  EXPECT_EQ(StopBehindGap(Stop("2026-03-01T12:00:00Z", 5), 2).bound(), "");
  EXPECT_EQ(StopBehindGap(Stop("now", std::nullopt), 2).bound(), "");
  EXPECT_EQ(StopBehindGap(v1::StopRecord(), 2).SerializeAsString(), "");
}

}  // namespace
}  // namespace tidemark
