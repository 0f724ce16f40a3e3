// The configuration of tidemarkd: one YAML file, checked as a whole before anything is touched.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/config_value.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark {

// With every default filled in. InvalidArgument (CONFIG_INVALID) reports every error of the file at
// once, a line each: FILE:LINE:COLUMN: KEY: what is wrong and what is accepted. Secrets are never
// part of it. Pure but for `environment`; `file` is for the report only.
absl::StatusOr<v1::Config> ParseConfig(std::string_view text, std::string_view file,
                                       const EnvironmentLookup& environment);

// Reads the file, with the environment of this process.
absl::StatusOr<v1::Config> LoadConfig(const std::string& file);

}  // namespace tidemark
