#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>

#include "tests/tree/checks.h"
#include "tests/tree/rules.h"

// The patterns are written with a class of one character here and there ("[s]leep"), so that this
// file does not match itself.
namespace tidemark::tree {
namespace {

bool IsText(const std::string& content) { return content.find('\0') == std::string::npos; }

template <typename Selector>
Violations MatchingLines(const Tree& tree, const std::string& rule, const RE2& pattern,
                         const std::string& what, Selector selected) {
  Violations found;
  for (const auto& [path, content] : tree) {
    if (!IsText(content) || !selected(path)) continue;
    size_t number = 0;
    for (const std::string& line : Lines(content)) {
      ++number;
      std::string match;
      if (RE2::PartialMatch(line, pattern, &match)) {
        found.push_back({rule, path, number, fmt::format("\"{}\": {}", match, what)});
      }
    }
  }
  return found;
}

bool AnyPath(const std::string&) { return true; }

}  // namespace

Violations CheckLineLength(const Tree& tree) {
  Violations found;
  for (const auto& [path, content] : tree) {
    if (!IsCpp(path)) continue;
    size_t number = 0;
    for (const std::string& line : Lines(content)) {
      ++number;
      // Characters, not bytes: every byte but the continuation bytes of UTF-8.
      auto length =
          std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      if (static_cast<size_t>(length) > kLineCharactersMax) {
        found.push_back({"line length", path, number,
                         fmt::format("{} characters, at most {}", length, kLineCharactersMax)});
      }
    }
  }
  return found;
}

Violations CheckNoSleepInTests(const Tree& tree) {
  static const RE2 pattern(
      R"((\b[s]leep_for\b|\b[s]leep_until\b|\b[S]leepFor\b|\bu?[s]leep\(|\btime\.[s]leep|\b[s]leep [0-9.$"]))");
  return MatchingLines(tree, "sleep", pattern,
                       "wait for the condition (tests/testing/wait_until.h)",
                       [](const std::string& path) {
                         return TopFolder(path) == "tests" && Extension(path) != ".md";
                       });
}

Violations CheckNoMachinePath(const Tree& tree) {
  static const RE2 pattern(R"((?:^|[^\w.}$)*-])(/(?:[w]ork|[r]oot|[h]ome)(?:/[\w.]|\b)))");
  return MatchingLines(tree, "machine path", pattern,
                       "a path of one machine; name it relative to the tree", AnyPath);
}

Violations CheckNoRegistryHost(const Tree& tree) {
  static const RE2 pattern(
      R"((https?://[^/\s"']*(?:[r]egistry|[n]pmjs|[p]ypi|[p]ythonhosted|[a]rtifactory|[j]frog|[n]exus|[m]irror|)"
      R"([p]roxy\.golang|[d]eb\.debian)[^/\s"']*))");
  return MatchingLines(tree, "registry host", pattern,
                       "packages are installed by name, from where the user says", AnyPath);
}

Violations CheckNoLeftoverMark(const Tree& tree) {
  static const RE2 pattern(R"(\b([T]ODO|[F]IXME|[X]XX)\b)");
  return MatchingLines(tree, "leftover", pattern, "do it, or file it", AnyPath);
}

}  // namespace tidemark::tree
