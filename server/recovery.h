// What is done about a break: an error of a source whose log does not go on behind what is stored.
// Pure; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// `recovery` of a feed, as people write it.
const std::vector<std::string>& RecoveryWords();
std::string RecoveryWord(v1::RecoveryPolicy policy);
// STOP for an empty text and for what is no such word.
v1::RecoveryPolicy RecoveryPolicyOf(std::string_view word);

enum class BreakAnswer {
  // The error is no break: nothing can be healed.
  kNoBreak,
  // Capture stops, until a person orders otherwise; the source shows the break again.
  kStop,
  // The same; the source may look right again later, though it is not, so the break is noted.
  kNoteAndStop,
  // Capture goes on in a new generation.
  kHeal,
};

// By the reason of the error. Another cluster is never taken for the old one by itself: it may be
// no more than a wrong address.
BreakAnswer AnswerTo(std::string_view reason, v1::RecoveryPolicy configured);
// A person may order to heal it.
bool IsBreak(std::string_view reason);

// What to do about a break that stopped a feed, for the end of a message.
std::string BreakRemedy(std::string_view reason, std::string_view feed, std::string_view engine);

}  // namespace tidemark
