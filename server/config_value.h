// Reads single values of the configuration file. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tidemark {

// The value of an environment variable; nullopt when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// Every error is InvalidArgument without a reason; its message says what is accepted, and does not
// repeat the text where that came from the environment.

// Whole number with a unit: 500ms, 30s, 5m, 12h, 7d.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);
// Whole number with a unit: 100B, 512KiB, 64MiB, 10GiB, 1TiB.
absl::StatusOr<uint64_t> ParseByteSize(std::string_view text);
// Decimal digits only, at most `max`.
absl::StatusOr<uint64_t> ParseUnsigned(std::string_view text, uint64_t max);
// true or false.
absl::StatusOr<bool> ParseBool(std::string_view text);

// Replaces each ${NAME}; $${ stands for ${ itself. The result is never looked at again.
absl::StatusOr<std::string> ExpandEnvironment(std::string_view text,
                                              const EnvironmentLookup& lookup);

}  // namespace tidemark
