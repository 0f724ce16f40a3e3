#include "server/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "proto/reason.h"
#include "server/config_rules.h"
#include "server/config_yaml.h"
#include "server/limits.h"

namespace tidemark {
namespace {

absl::Status Invalid(const std::string& report) {
  return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kConfigInvalid, report);
}

std::optional<std::string> FromProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<v1::Config> ParseConfig(std::string_view text, std::string_view file,
                                       const EnvironmentLookup& environment) {
  ParsedConfig parsed = ParseConfigYaml(text, environment);
  v1::Config config = parsed.config;
  FillConfigDefaults(&config);
  std::vector<ConfigError> errors = std::move(parsed.errors);
  // A rule that is broken by a value that could not be read would be a second report of one error.
  for (auto& broken : CheckConfigRules(config, parsed.places)) {
    const bool read = std::none_of(errors.begin(), errors.end(), [&](const ConfigError& error) {
      return broken.path.rfind(error.path, 0) == 0;
    });
    if (read) errors.push_back(std::move(broken));
  }
  if (!errors.empty()) return Invalid(ConfigReport(file, std::move(errors)));
  return config;
}

absl::StatusOr<v1::Config> LoadConfig(const std::string& file) {
  // Opening a folder succeeds; reading it does not.
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    return Invalid(fmt::format("{}: a folder, not a file", file));
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return Invalid(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
  std::string text(limits::config_file_bytes_max + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return ParseConfig(text, file, FromProcessEnvironment);
}

}  // namespace tidemark
