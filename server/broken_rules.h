// Collects the rules that a configuration breaks, each with the place of its key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "proto/table_name.h"
#include "server/config_error.h"

namespace tidemark {

// Plain; one thread. Paths are those of keys: feeds[0].postgres.port.
class BrokenRules {
 public:
  // `places` outlives it.
  explicit BrokenRules(const ConfigPlaces& places) : places_(places) {}

  void Fail(const std::string& path, std::string message);

  void Require(const std::string& path, const std::string& value);
  void CheckWord(const std::string& path, const std::string& word,
                 const std::vector<std::string>& words);
  // Both ends included; `max` may be infinite.
  void CheckPeriod(const std::string& path, const google::protobuf::Duration& period,
                   absl::Duration min, absl::Duration max);
  void CheckCount(const std::string& path, uint64_t count, uint64_t max);
  // `what`, in words, is the namespace in which no two feeds may have the same value.
  void CheckUnique(const std::string& what, const std::string& path, const std::string& value);
  // Tables, exact or glob.
  template <typename Patterns>
  void CheckTables(const std::string& path, const Patterns& patterns) {
    for (int i = 0; i < patterns.size(); ++i) {
      if (const auto parsed = TablePattern::Parse(patterns[i]); !parsed.ok()) {
        Fail(path + "[" + std::to_string(i) + "]", std::string(parsed.status().message()));
      }
    }
  }
  // A single table, schema.table, in the one text of TableNameText; nothing when it is none, which
  // is reported then.
  std::optional<std::string> CheckTable(const std::string& path, const std::string& table);

  int LineOf(const std::string& path) const { return places_.Find(path).line; }
  std::vector<ConfigError> Take() { return std::move(errors_); }

 private:
  const ConfigPlaces& places_;
  std::vector<ConfigError> errors_;
  // By what and value, the path at which it was taken first.
  std::map<std::pair<std::string, std::string>, std::string> taken_;
};

}  // namespace tidemark
