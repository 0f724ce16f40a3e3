// Any bytes as a configuration file: no crash, no hang, no exception, no secret in the report.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "SECRET") return "s3cr3t-of-the-environment";
    return std::nullopt;
  };
  const auto config = tidemark::ParseConfig(text, "fuzz.yaml", environment);
  if (config.ok()) return 0;
  const std::string_view report(config.status().message().data(), config.status().message().size());
  // The name of a variable may be shown, its value may not.
  if (report.find("s3cr3t-of") != std::string_view::npos &&
      text.find("s3cr3t-of") == std::string_view::npos) {
    std::abort();
  }
  return 0;
}
