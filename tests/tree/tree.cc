#include "tests/tree/tree.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

namespace tidemark::tree {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

absl::StatusOr<std::vector<std::string>> GitFiles(const fs::path& root) {
  // A checkout that belongs to another user is still only listed.
  std::string command = fmt::format(
      "git -c safe.directory='*' -C '{}' ls-files -z --cached --others --exclude-standard",
      root.string());
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  if (pipe == nullptr) return absl::InternalError("git could not be started");
  std::vector<std::string> paths(1);
  for (int c; (c = fgetc(pipe.get())) != EOF;) {
    if (c == '\0') {
      paths.emplace_back();
    } else {
      paths.back() += static_cast<char>(c);
    }
  }
  paths.pop_back();
  if (pclose(pipe.release()) != 0) return absl::InternalError("failed: " + command);
  return paths;
}

std::vector<std::string> WalkedFiles(const fs::path& root) {
  std::vector<std::string> paths;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    std::string name = entry->path().filename();
    bool skipped =
        name == ".git" || name == ".cache" || name == "node_modules" || StartsWith(name, "build");
    if (entry->is_directory() && skipped) entry.disable_recursion_pending();
    if (entry->is_regular_file())
      paths.push_back(fs::relative(entry->path(), root).generic_string());
  }
  return paths;
}

}  // namespace

absl::StatusOr<Tree> LoadTree(const fs::path& root) {
  std::vector<std::string> paths;
  if (fs::exists(root / ".git")) {
    absl::StatusOr<std::vector<std::string>> listed = GitFiles(root);
    if (!listed.ok()) return listed.status();
    paths = *listed;
  } else {
    paths = WalkedFiles(root);
  }
  Tree tree;
  for (const std::string& path : paths) {
    if (fs::is_regular_file(root / path)) tree[path] = ReadFile(root / path);
  }
  return tree;
}

std::vector<std::string> Lines(const std::string& content) {
  std::vector<std::string> lines;
  std::istringstream stream(content);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string Folder(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string TopFolder(const std::string& path) {
  size_t slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string Extension(const std::string& path) {
  std::string name = FileName(path);
  size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? "" : name.substr(dot);
}

bool IsCpp(const std::string& path) { return Extension(path) == ".h" || Extension(path) == ".cc"; }

bool StartsWith(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool EndsWith(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace tidemark::tree
