#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "tests/tree/checks.h"
#include "tests/tree/rules.h"

namespace tidemark::tree {
namespace {

bool IsAliveByItself(const std::string& path) {
  static const std::set<std::string> names = {"README.md", "CMakeLists.txt", "package.json",
                                              "buf.yaml"};
  // Markdown is read by people, and its own names are checked; dotfiles are read by tools.
  return names.count(FileName(path)) != 0 || Extension(path) == ".md" || path[0] == '.';
}

std::string WithoutExtension(const std::string& path) {
  return path.substr(0, path.size() - Extension(path).size());
}

std::string Parent(const std::string& path) { return FileName(Folder(path)); }

// Everything that is written in the tree, to be searched for a name.
struct Mentions {
  const Tree& tree;

  bool Anywhere(const std::string& text, const std::string& except) const {
    return std::any_of(tree.begin(), tree.end(), [&](const auto& file) {
      return file.first != except && file.second.find(text) != std::string::npos;
    });
  }

  bool InCMake(const std::string& text) const {
    return std::any_of(tree.begin(), tree.end(), [&](const auto& file) {
      return FileName(file.first) == "CMakeLists.txt" &&
             file.second.find(text) != std::string::npos;
    });
  }

  // By a file other than its own source, and for a header of the product by other than tests: what
  // only its own test uses is dead.
  bool Included(const std::string& header) const {
    const std::string directive = fmt::format("\"{}\"", header);
    const std::string own_source = WithoutExtension(header) + ".cc";
    return std::any_of(tree.begin(), tree.end(), [&](const auto& file) {
      const auto& [path, content] = file;
      if (path == own_source || path == header || !IsCpp(path)) return false;
      if (TopFolder(path) == "tests" && TopFolder(header) != "tests") return false;
      return content.find(directive) != std::string::npos;
    });
  }
};

bool IsProgram(const std::string& path, const std::string& content) {
  static const RE2 entry(R"((?m)^(?:int main\(|extern "C" int LLVMFuzzer|BENCHMARK|TEST))");
  return EndsWith(path, "_test.cc") || RE2::PartialMatch(content, entry);
}

bool IsCompiled(const std::string& path, const Mentions& mentions) {
  // Every folder compiles its sources by pattern; a folder of its own must be named in one.
  const std::string folder = Folder(path);
  const std::string pattern = folder == TopFolder(path) ? "*.cc" : Parent(path) + "/*.cc";
  return mentions.InCMake(FileName(path)) || mentions.InCMake(pattern) ||
         (TopFolder(path) == "tests" && mentions.InCMake(Parent(path)));
}

std::string WhyDead(const std::string& path, const std::string& content, const Mentions& mentions) {
  const std::string extension = Extension(path);
  if (extension == ".h") {
    return mentions.Included(path)
               ? ""
               : "no part of the product includes it but its own source and tests";
  }
  if (extension == ".cc") {
    if (!IsCompiled(path, mentions)) return "no CMakeLists.txt builds it";
    const std::string header = WithoutExtension(path) + ".h";
    // A source without a header of its own implements a part of another one's, or takes the place
    // of what a library defines, for which it is linked by its name.
    bool serves = mentions.tree.count(header) != 0 ||
                  content.find("#include \"" + Folder(path) + "/") != std::string::npos ||
                  mentions.InCMake("PRIVATE " + path.substr(path.find('/') + 1));
    return serves || IsProgram(path, content)
               ? ""
               : "it is neither a program nor the source of a header beside it";
  }
  if (extension == ".proto") {
    const std::string stem = WithoutExtension(FileName(path));
    bool used = mentions.Anywhere(FileName(path), path) ||
                mentions.Anywhere(stem + ".pb.h", path) || mentions.InCMake(stem);
    return used ? "" : "nothing imports or generates from it";
  }
  // A data file may be reached through its folder, but not through the name of a folder at the top.
  bool by_folder =
      Folder(path).find('/') != std::string::npos && mentions.Anywhere(Folder(path), path);
  bool by_parent = Folder(Folder(path)).find('/') != std::string::npos &&
                   mentions.Anywhere(Folder(Folder(path)), path);
  bool named = mentions.Anywhere(FileName(path), path);
  return named || by_folder || by_parent ? "" : "nothing in the tree names it";
}

// Words of a document that stand in backticks or are the target of a link.
struct Mention {
  size_t line;
  std::string text;
  bool is_link;
};

std::vector<Mention> DocumentMentions(const std::string& content) {
  static const RE2 code(R"(`([^`]+)`)");
  static const RE2 link(R"(\]\(([^)\s]+)\))");
  static const RE2 word(R"(([^\s,;()|"'=]+))");
  std::vector<Mention> mentions;
  size_t number = 0;
  bool in_block = false;
  for (const std::string& line : Lines(content)) {
    ++number;
    if (StartsWith(line, "```")) {
      in_block = !in_block;
      continue;
    }
    std::vector<std::string> spans;
    re2::StringPiece rest(line);
    std::string text;
    if (in_block) spans.push_back(line);
    while (!in_block && RE2::FindAndConsume(&rest, code, &text)) spans.push_back(text);
    for (const std::string& span : spans) {
      re2::StringPiece words(span);
      while (RE2::FindAndConsume(&words, word, &text)) mentions.push_back({number, text, false});
    }
    rest = line;
    while (RE2::FindAndConsume(&rest, link, &text)) mentions.push_back({number, text, true});
  }
  return mentions;
}

// "a/../b" to "b", without a look at any disk.
std::string Normal(const std::string& path) {
  std::string normal = std::filesystem::path(path).lexically_normal().generic_string();
  while (!normal.empty() && normal.back() == '/') normal.pop_back();
  return normal == "." ? "" : normal;
}

std::string Beside(const std::string& document, const std::string& target) {
  return Normal(Folder(document).empty() ? target : Folder(document) + "/" + target);
}

bool Exists(const Tree& tree, const std::string& path) {
  if (path.empty() || tree.count(path) != 0) return true;
  auto next = tree.lower_bound(path + "/");
  return next != tree.end() && StartsWith(next->first, path + "/");
}

bool LooksLikePathOfTree(const std::string& text) {
  static const RE2 below_top(
      R"(^(?:\./)?(?:proto|server|capture|store|client|tests|bench|deploy|\.ci)/[\w./-]*$)");
  return RE2::FullMatch(text, below_top);
}

bool LooksLikeFileOfTree(const std::string& text) {
  static const RE2 file(R"(^(?:\./)?(?:[\w-]+/)*[\w-]+\.(?:h|cc|md|proto)$)");
  return RE2::FullMatch(text, file);
}

bool IsNamedAnywhere(const Tree& tree, const std::string& file) {
  return std::any_of(tree.begin(), tree.end(), [&](const auto& entry) {
    return entry.first == file || EndsWith(entry.first, "/" + file);
  });
}

}  // namespace

Violations CheckNoDeadFile(const Tree& tree) {
  Violations found;
  Mentions mentions{tree};
  for (const auto& [path, content] : tree) {
    if (IsAliveByItself(path)) continue;
    if (std::string why = WhyDead(path, content, mentions); !why.empty()) {
      found.push_back({"dead file", path, 0, why});
    }
  }
  return found;
}

Violations CheckDocumentedPaths(const Tree& tree) {
  static const RE2 elsewhere(R"(^(?:[a-z]+:|#))");
  Violations found;
  for (const auto& [path, content] : tree) {
    if (Extension(path) != ".md") continue;
    for (Mention& mention : DocumentMentions(content)) {
      std::string target = mention.text;
      bool exists = true;
      if (mention.is_link) {
        if (RE2::PartialMatch(target, elsewhere)) continue;
        exists = Exists(tree, Beside(path, target.substr(0, target.find('#'))));
      } else {
        while (!target.empty() && (target.back() == '.' || target.back() == ':')) target.pop_back();
        const bool ours = LooksLikePathOfTree(target);
        if (!ours && !LooksLikeFileOfTree(target)) continue;
        exists = Exists(tree, Normal(target)) || Exists(tree, Beside(path, target)) ||
                 (!ours && IsNamedAnywhere(tree, Normal(target)));
        for (const std::string& foreign : ForeignFileNames()) exists = exists || target == foreign;
      }
      if (!exists)
        found.push_back({"documented path", path, mention.line, target + " does not exist"});
    }
  }
  return found;
}

}  // namespace tidemark::tree
