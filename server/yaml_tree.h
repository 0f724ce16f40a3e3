// A YAML document as a plain tree that knows where everything stands. The only file pair that
// touches yaml-cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/config_error.h"

namespace tidemark {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  ConfigPlace place;
  std::string scalar;
  std::vector<YamlNode> items;
  // In the order of the file; keys may repeat.
  std::vector<YamlEntry> entries;
};

struct YamlEntry {
  YamlNode key;
  YamlNode value;
};

// "a list", "text", …, for messages.
std::string_view KindName(YamlNode::Kind kind);

struct YamlDocument {
  YamlNode root;
  std::optional<ConfigError> error;
};

// One document of at most limits::config_file_bytes_max; anchors, aliases, tags and anything deeper
// or larger than limits::config_depth_max and config_nodes_max are refused. Never throws.
YamlDocument ReadYaml(std::string_view text);

}  // namespace tidemark
