#include "server/event_log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "proto/reason.h"

namespace tidemark {
namespace {

// Control characters are escaped in both forms: an event is one line, whatever a source said.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out;
}

bool NeedsQuotes(std::string_view value) {
  return value.empty() || value.find_first_of(" \"\\=\n\t\r") != std::string_view::npos;
}

spdlog::level::level_enum LevelOf(const std::string& name) {
  if (name == "trace") return spdlog::level::trace;
  if (name == "debug") return spdlog::level::debug;
  if (name == "warn") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  return spdlog::level::info;
}

}  // namespace

std::string EventText(std::string_view event, const EventFields& fields) {
  std::string line(event);
  for (const auto& [key, value] : fields) {
    const std::string_view quote = NeedsQuotes(value) ? "\"" : "";
    line += fmt::format(" {}={}{}{}", key, quote, Escaped(value), quote);
  }
  return line;
}

std::string EventJson(std::string_view event, const EventFields& fields) {
  std::string line = fmt::format("\"event\":\"{}\"", Escaped(event));
  for (const auto& [key, value] : fields) {
    line += fmt::format(",\"{}\":\"{}\"", key, Escaped(value));
  }
  return line;
}

EventLog::EventLog(std::shared_ptr<spdlog::logger> logger, bool json)
    : logger_(std::move(logger)), json_(json) {}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Open(const v1::LogConfig& config) {
  spdlog::sink_ptr sink;
  try {
    if (config.file().empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(config.file());
    }
  } catch (const spdlog::spdlog_ex& error) {
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kConfigInvalid,
                           fmt::format("log.file cannot be opened: {}", error.what()));
  }
  auto logger = std::make_shared<spdlog::logger>("tidemark", std::move(sink));
  const bool json = config.format() == "json";
  logger->set_pattern(
      json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",%v})" : "%Y-%m-%dT%H:%M:%S.%fZ %l %v",
      spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::trace);
  std::unique_ptr<EventLog> log(new EventLog(std::move(logger), json));
  log->SetLevel(config.level());
  return log;
}

void EventLog::SetLevel(const std::string& level) { logger_->set_level(LevelOf(level)); }

std::unique_ptr<EventLog> EventLog::Silent() {
  auto logger =
      std::make_shared<spdlog::logger>("silent", std::make_shared<spdlog::sinks::null_sink_mt>());
  return std::unique_ptr<EventLog>(new EventLog(std::move(logger), false));
}

std::string EventLog::Line(std::string_view event, const EventFields& fields) const {
  return json_ ? EventJson(event, fields) : EventText(event, fields);
}

void EventLog::Debug(std::string_view event, const EventFields& fields) {
  if (logger_->should_log(spdlog::level::debug)) logger_->debug("{}", Line(event, fields));
}

void EventLog::Info(std::string_view event, const EventFields& fields) {
  logger_->info("{}", Line(event, fields));
}

void EventLog::Warning(std::string_view event, const EventFields& fields) {
  logger_->warn("{}", Line(event, fields));
}

void EventLog::Error(std::string_view event, const EventFields& fields) {
  logger_->error("{}", Line(event, fields));
}

}  // namespace tidemark
