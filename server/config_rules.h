// What must hold between the keys of a configuration, and what is meant by those that are left out.
// Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/config_error.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark {

// Fills in every default, also those that are made from other keys (slot and publication of a
// feed).
void FillConfigDefaults(v1::Config* config);

// Every broken rule; takes a configuration with its defaults. Two feeds share neither a name nor a
// slot nor a publication, defaults counted: two readers of one slot lose each other's changes. What
// is known of an engine's part stands in config_engine_rules.h.
std::vector<ConfigError> CheckConfigRules(const v1::Config& config, const ConfigPlaces& places);

// 1 to 63 of a-z, 0-9, _ and -, a letter first.
bool IsFeedName(std::string_view name);

// True for unix:PATH, localhost, 127.0.0.0/8 and ::1, with or without a port.
bool IsLoopbackAddress(std::string_view address);

}  // namespace tidemark
