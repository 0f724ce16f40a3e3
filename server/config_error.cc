#include "server/config_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "server/limits.h"

namespace tidemark {
namespace {

// Number of single-letter changes, with a swap of neighbours as one.
size_t SpellingDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      distance[i][j] = std::min(
          {distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

constexpr size_t kWordBytesMax = 64;

}  // namespace

ConfigPlace ConfigPlaces::Find(std::string_view path) const {
  while (true) {
    if (const auto found = places_.find(path); found != places_.end()) return found->second;
    const size_t cut = path.find_last_of(".[");
    if (cut == std::string_view::npos) return {};
    path = path.substr(0, cut);
  }
}

std::string ConfigReport(std::string_view file, std::vector<ConfigError> errors) {
  std::stable_sort(errors.begin(), errors.end(), [](const ConfigError& a, const ConfigError& b) {
    return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
  });
  std::string report;
  for (size_t i = 0; i < errors.size() && i < limits::config_errors_max; ++i) {
    const ConfigError& error = errors[i];
    if (i > 0) report += '\n';
    report += file;
    if (error.place.line > 0) {
      report += fmt::format(":{}:{}", error.place.line, error.place.column);
    }
    if (!error.path.empty()) report += ": " + error.path;
    report += ": " + error.message;
  }
  if (errors.size() > limits::config_errors_max) {
    report += fmt::format("\n{}: {} more errors", file, errors.size() - limits::config_errors_max);
  }
  return report;
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* nearest = nullptr;
  size_t nearest_distance = 0;
  if (word.size() <= kWordBytesMax) {
    for (const auto& candidate : candidates) {
      const size_t distance = SpellingDistance(word, candidate);
      // Further away it is another word, not a misspelt one.
      if (distance > std::max<size_t>(1, candidate.size() / 3)) continue;
      if (nearest == nullptr || distance < nearest_distance) {
        nearest = &candidate;
        nearest_distance = distance;
      }
    }
  }
  if (nearest != nullptr) return fmt::format("; did you mean \"{}\"?", *nearest);
  return fmt::format("; one of: {}", fmt::join(candidates, ", "));
}

}  // namespace tidemark
