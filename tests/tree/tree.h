// The files of a source tree, in memory, so that a rule is a pure function and a test can make a
// tree of a few lines.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tidemark::tree {

// Path relative to the root, with slashes, to content. Constant once loaded.
using Tree = std::map<std::string, std::string>;

// In a git checkout: what is tracked or would be by `git add`. Elsewhere: everything below `root`
// but build folders.
absl::StatusOr<Tree> LoadTree(const std::filesystem::path& root);

std::vector<std::string> Lines(const std::string& content);
std::string Folder(
    const std::string& path);  // "capture/postgres" of "capture/postgres/slot.h"; "" at the top
std::string TopFolder(const std::string& path);  // "capture" of the same; "" for a file at the top
std::string FileName(const std::string& path);
std::string Extension(const std::string& path);  // ".h"; "" for none
bool IsCpp(const std::string& path);
bool StartsWith(const std::string& text, const std::string& prefix);
bool EndsWith(const std::string& text, const std::string& suffix);

}  // namespace tidemark::tree
