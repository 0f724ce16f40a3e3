// What the server did, for those who run it: one line an event, as text or JSON. Libraries return
// errors; only the server logs. Fields never hold a secret.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tidemark/v1/config.pb.h"

namespace spdlog {
class logger;
}

namespace tidemark {

using EventFields = std::vector<std::pair<std::string_view, std::string>>;

// Thread rule: safe from any thread. A line is written when the call returns.
class EventLog {
 public:
  // FailedPrecondition when the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(const v1::LogConfig& config);
  // Writes nothing, for tests.
  static std::unique_ptr<EventLog> Silent();

  // As log.level; later events only.
  void SetLevel(const std::string& level);

  void Debug(std::string_view event, const EventFields& fields);
  void Info(std::string_view event, const EventFields& fields);
  void Warning(std::string_view event, const EventFields& fields);
  void Error(std::string_view event, const EventFields& fields);

 private:
  EventLog(std::shared_ptr<spdlog::logger> logger, bool json);
  std::string Line(std::string_view event, const EventFields& fields) const;

  const std::shared_ptr<spdlog::logger> logger_;
  const bool json_;
};

// Exposed for its test: `event key=value key="value with spaces"`, or the inside of a JSON object.
std::string EventText(std::string_view event, const EventFields& fields);
std::string EventJson(std::string_view event, const EventFields& fields);

}  // namespace tidemark
