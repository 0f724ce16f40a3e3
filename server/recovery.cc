#include "server/recovery.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/reason.h"

namespace tidemark {
namespace {

// Every time the source is looked at, these show.
constexpr std::string_view kLastingBreaks[] = {reason::kSlotMissing, reason::kSlotLost,
                                               reason::kSlotAdvanced, reason::kSourceTimeline,
                                               reason::kPublicationMissing};

bool IsLasting(std::string_view reason) {
  return std::find(std::begin(kLastingBreaks), std::end(kLastingBreaks), reason) !=
         std::end(kLastingBreaks);
}

}  // namespace

const std::vector<std::string>& RecoveryWords() {
  static const std::vector<std::string> words = {"stop", "resnapshot", "gap_and_continue"};
  return words;
}

std::string RecoveryWord(v1::RecoveryPolicy policy) {
  if (policy == v1::RECOVERY_POLICY_RESNAPSHOT) return RecoveryWords()[1];
  if (policy == v1::RECOVERY_POLICY_GAP_AND_CONTINUE) return RecoveryWords()[2];
  return RecoveryWords()[0];
}

v1::RecoveryPolicy RecoveryPolicyOf(std::string_view word) {
  if (word == RecoveryWords()[1]) return v1::RECOVERY_POLICY_RESNAPSHOT;
  if (word == RecoveryWords()[2]) return v1::RECOVERY_POLICY_GAP_AND_CONTINUE;
  return v1::RECOVERY_POLICY_STOP;
}

BreakAnswer AnswerTo(std::string_view reason, v1::RecoveryPolicy configured) {
  if (!IsBreak(reason)) return BreakAnswer::kNoBreak;
  if (reason == reason::kSourceReplaced) return BreakAnswer::kStop;
  if (configured == v1::RECOVERY_POLICY_RESNAPSHOT ||
      configured == v1::RECOVERY_POLICY_GAP_AND_CONTINUE) {
    return BreakAnswer::kHeal;
  }
  // The log of a server that was set back grows past what is stored.
  return IsLasting(reason) ? BreakAnswer::kStop : BreakAnswer::kNoteAndStop;
}

bool IsBreak(std::string_view reason) {
  return IsLasting(reason) || reason == reason::kSourceRewound || reason == reason::kSourceReplaced;
}

std::string BreakRemedy(std::string_view reason, std::string_view feed, std::string_view engine) {
  std::string_view what =
      "every table is read again, and what really differs is told; gap_and_continue gives up what "
      "is missing";
  if (engine == "poll") what = "every table is read again, and what really differs is told";
  if (engine == "changelog") {
    what =
        "everything that the changelog holds is told again, in a new generation; what it lost is "
        "missing";
  }
  std::string first;
  if (reason == reason::kSourceReplaced) {
    first = "correct the address and restart; or, if this one took the place of the old one, ";
  } else if (reason == reason::kSourceTimeline) {
    first = "connect to the old primary and restart; or ";
  }
  return fmt::format("{}run: tidemark recover {} --policy resnapshot ({})", first, feed, what);
}

}  // namespace tidemark
