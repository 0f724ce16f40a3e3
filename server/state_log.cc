#include "server/state_log.h"

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace tidemark {
namespace {

// STREAMING becomes streaming.
std::string StateName(v1::SourceState state) {
  const std::string name = v1::SourceState_Name(state);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "SOURCE_STATE_"));
}

}  // namespace

void StateLog::Update() {
  for (const auto& feed : feeds_.feeds()) {
    const v1::FeedStatus status = feed->Status();
    v1::SourceState& last = last_[feed->name()];
    if (status.source_state() == last) continue;
    last = status.source_state();
    log_.Info("source state", {{"feed", feed->name()},
                               {"state", StateName(status.source_state())},
                               {"detail", status.detail()},
                               {"position", status.checkpoint().native_position()}});
  }
}

}  // namespace tidemark
