// Reads the text of a configuration file into a message, by the field names of the message.
#pragma once

#include <string_view>
#include <vector>

#include "server/config_error.h"
#include "server/config_value.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark {

struct ParsedConfig {
  v1::Config config;
  ConfigPlaces places;
  // All of them, not only the first; the config is then not to be used.
  std::vector<ConfigError> errors;
};

// Knows the form (keys, types, units, duplicates), not the rules between keys. Never throws, and is
// bounded in depth and size whatever the text: anchors, aliases and tags are refused. Pure but for
// `environment`.
ParsedConfig ParseConfigYaml(std::string_view text, const EnvironmentLookup& environment);

}  // namespace tidemark
