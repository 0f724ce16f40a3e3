#include "capture/poll/checks.h"

#include <string>

#include "capture/poll/make_engine.h"
#include "capture/poll/poll_settings.h"
#include "proto/reason.h"

namespace tidemark::capture {

std::vector<Finding> CheckPoll(const v1::FeedConfig& config) {
  const absl::StatusOr<poll::PollSettings> settings = poll::SettingsOf(config);
  if (settings.ok()) return poll::MakeEngine(config, *settings)->Check();
  return {{Finding::Severity::kError, ReasonOf(settings.status()),
           std::string(settings.status().message()), ""}};
}

}  // namespace tidemark::capture
