#include "server/crash_at.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>

#include "server/config_value.h"

namespace tidemark {

absl::StatusOr<std::function<IngestObserver(const std::string& feed)>> CrashAt(
    std::string_view text) {
  static const std::map<std::string, IngestStep, std::less<>> kSteps = {
      {"read", IngestStep::kRead},
      {"appended", IngestStep::kAppended},
      {"published", IngestStep::kPublished},
      {"synced", IngestStep::kSynced},
      {"confirmed", IngestStep::kConfirmed},
      {"drop_noted", IngestStep::kDropNoted},
      {"source_dropped", IngestStep::kSourceDropped}};
  const size_t colon = text.find(':');
  const auto step = kSteps.find(text.substr(0, colon));
  const auto count = ParseUnsigned(colon == std::string_view::npos ? "" : text.substr(colon + 1),
                                   std::numeric_limits<uint32_t>::max());
  if (step == kSteps.end() || !count.ok() || *count == 0) {
    return absl::InvalidArgumentError(
        "--crash-at expects STEP:N with STEP one of read, appended, published, synced, confirmed, "
        "drop_noted, source_dropped");
  }
  auto left = std::make_shared<std::atomic<int64_t>>(static_cast<int64_t>(*count));
  return [step = step->second, left](const std::string&) -> IngestObserver {
    return [step, left](IngestStep reached) {
      if (reached == step && --*left == 0) std::raise(SIGKILL);
      return absl::OkStatus();
    };
  };
}

}  // namespace tidemark
