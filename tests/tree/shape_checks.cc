#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "tests/tree/checks.h"
#include "tests/tree/rules.h"

namespace tidemark::tree {
namespace {

struct Include {
  size_t line;
  std::string header;
};

std::vector<Include> Includes(const std::string& content) {
  static const RE2 directive(R"re(^\s*#\s*include\s*[<"]([^>"]+)[>"])re");
  std::vector<Include> includes;
  size_t number = 0;
  for (const std::string& line : Lines(content)) {
    ++number;
    std::string header;
    if (RE2::PartialMatch(line, directive, &header)) includes.push_back({number, header});
  }
  return includes;
}

const FolderRule* RuleOf(const std::string& folder) {
  for (const FolderRule& rule : FolderRules()) {
    if (rule.folder == folder) return &rule;
  }
  return nullptr;
}

template <typename Container>
bool Holds(const Container& container, const std::string& value) {
  return std::find(container.begin(), container.end(), value) != container.end();
}

// "ConnectionManager" to {"connection", "manager"}; "pg_session.h" to {"pg", "session", "h"}.
std::vector<std::string> Words(const std::string& name) {
  std::vector<std::string> words(1);
  for (char c : name) {
    if (isalnum(c) == 0) {
      words.emplace_back();
    } else if (isupper(c) != 0) {
      words.emplace_back(1, static_cast<char>(tolower(c)));
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::string EmptyWord(const std::string& name) {
  for (const std::string& word : Words(name)) {
    if (Holds(EmptyNames(), word)) return word;
  }
  return "";
}

}  // namespace

Violations CheckTopLevel(const Tree& tree) {
  Violations found;
  std::set<std::string> entries;
  for (const auto& [path, content] : tree) entries.insert(path.substr(0, path.find('/')));
  for (const std::string& entry : entries) {
    if (entry[0] == '.' || Holds(TopLevelEntries(), entry)) continue;
    found.push_back(
        {"top-level", entry, 0, "the top level is fixed; this belongs into one of its folders"});
  }
  return found;
}

Violations CheckReadmes(const Tree& tree) {
  Violations found;
  std::set<std::string> folders;
  for (const auto& [path, content] : tree) folders.insert(TopFolder(path));
  for (const std::string& folder : folders) {
    if (folder.empty() || folder[0] == '.' || tree.count(folder + "/README.md") != 0) continue;
    found.push_back({"readme", folder, 0, "has no README.md with its purpose, files and rule"});
  }
  return found;
}

Violations CheckNames(const Tree& tree) {
  static const RE2 type(R"(^\s*(?:enum\s+)?(?:class|struct)\s+(\w+)[^;]*$)");
  Violations found;
  for (const auto& [path, content] : tree) {
    if (std::string word = EmptyWord(path); !word.empty()) {
      found.push_back(
          {"name", path, 0, fmt::format("\"{}\" says nothing: name it after its purpose", word)});
    }
    if (!IsCpp(path)) continue;
    size_t number = 0;
    for (const std::string& line : Lines(content)) {
      ++number;
      std::string name;
      if (!RE2::PartialMatch(line, type, &name)) continue;
      if (std::string word = EmptyWord(name); !word.empty()) {
        found.push_back(
            {"name", path, number, fmt::format("type {}: \"{}\" says nothing", name, word)});
      }
    }
  }
  return found;
}

Violations CheckFolderIncludes(const Tree& tree) {
  Violations found;
  for (const auto& [path, content] : tree) {
    const FolderRule* rule = RuleOf(TopFolder(path));
    if (!IsCpp(path) || rule == nullptr) continue;
    for (const Include& include : Includes(content)) {
      const std::string target = TopFolder(include.header);
      if (RuleOf(target) == nullptr) continue;  // Not ours.
      if (tree.count(include.header) == 0) {
        found.push_back(
            {"include", path, include.line, fmt::format("{} is not in the tree", include.header)});
      } else if (target != rule->folder && !Holds(rule->may_include, target) &&
                 !Holds(rule->may_include, "*")) {
        found.push_back(
            {"include", path, include.line,
             fmt::format("{}/ may not include {} (DESIGN: proto <- capture, store <- server; "
                         "client -> proto)",
                         rule->folder, include.header)});
      }
    }
  }
  return found;
}

Violations CheckLibraryIncludes(const Tree& tree) {
  Violations found;
  for (const auto& [path, content] : tree) {
    if (!IsCpp(path)) continue;
    for (const Include& include : Includes(content)) {
      for (const LibraryRule& rule : LibraryRules()) {
        if (!StartsWith(include.header, rule.header)) continue;
        bool allowed =
            std::any_of(rule.allowed.begin(), rule.allowed.end(),
                        [&](const std::string& prefix) { return StartsWith(path, prefix); });
        if (!allowed) {
          found.push_back({"library", path, include.line,
                           fmt::format("{} ({}) may be included only in {}", rule.library,
                                       include.header, fmt::join(rule.allowed, ", "))});
        }
      }
    }
  }
  return found;
}

}  // namespace tidemark::tree
