// The errors of a request that this server cannot take, or cannot answer. Pure; safe from any
// thread.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace tidemark {

// REQUEST_INVALID; details name the field.
absl::Status InvalidRequest(std::string_view field, std::string_view message);

// FEATURE_UNSUPPORTED; details name the feature.
absl::Status UnsupportedFeature(std::string_view feature);

// STORE_DAMAGED: bytes that make no sense. `what` was read.
absl::Status DamagedStore(std::string_view what);

}  // namespace tidemark
