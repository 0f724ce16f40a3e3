// The errors of a request that this server cannot take. Pure; safe from any thread.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace tidemark {

// REQUEST_INVALID; details name the field.
absl::Status InvalidRequest(std::string_view field, std::string_view message);

// FEATURE_UNSUPPORTED; details name the feature.
absl::Status UnsupportedFeature(std::string_view feature);

}  // namespace tidemark
