// What is wrong with a configuration file, and where. Plain values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

// 1-based; 0: not known.
struct ConfigPlace {
  int line = 0;
  int column = 0;
};

struct ConfigError {
  ConfigPlace place;
  // The key that it is about: feeds[0].postgres.port; empty for the file as a whole.
  std::string path;
  // What was found and what is accepted. Never the value of a secret.
  std::string message;
};

// Where each key of the file stands, by path.
class ConfigPlaces {
 public:
  void Set(const std::string& path, ConfigPlace place) { places_[path] = place; }
  // The place of the path, or of what it is part of.
  ConfigPlace Find(std::string_view path) const;

 private:
  std::map<std::string, ConfigPlace, std::less<>> places_;
};

// One line an error, in order of place: FILE:LINE:COLUMN: PATH: MESSAGE.
std::string ConfigReport(std::string_view file, std::vector<ConfigError> errors);

// `; did you mean "retention"?` for the candidate that is nearest in spelling, else the list of
// all: `; one of: age, bytes`.
std::string Suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tidemark
