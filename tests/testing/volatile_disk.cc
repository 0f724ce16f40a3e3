#include "tests/testing/volatile_disk.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tidemark::testing {
namespace {

namespace fs = std::filesystem;

// One name for one file: RocksDB writes some of its paths with two slashes.
std::string Normal(const std::string& path) {
  std::string normal = fs::path(path).lexically_normal().string();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

std::string FolderOf(const std::string& path) { return fs::path(path).parent_path().string(); }

}  // namespace

VolatileDisk::VolatileDisk(fs::path links) : links_(std::move(links)) {
  fs::create_directories(links_);
}

VolatileDisk::ContentPtr VolatileDisk::Made(const std::string& path) {
  std::lock_guard lock(mutex_);
  ContentPtr content = NewContent(Normal(path), 0, 0);
  Change(Normal(path), content);
  return content;
}

VolatileDisk::ContentPtr VolatileDisk::Find(const std::string& path) {
  std::lock_guard lock(mutex_);
  return FindLocked(Normal(path));
}

VolatileDisk::ContentPtr VolatileDisk::FindLocked(const std::string& path) {
  const auto known = names_.find(path);
  if (known != names_.end()) return known->second;
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return nullptr;
  ContentPtr content = NewContent(path, size, size);
  names_[path] = content;
  folders_[FolderOf(path)].synced[path] = content;
  return content;
}

VolatileDisk::ContentPtr VolatileDisk::NewContent(const std::string& path, uint64_t size,
                                                  uint64_t synced) {
  // The link lives as long as anything could bring the file back.
  ContentPtr content(new Content{links_ / std::to_string(next_link_++), size, synced},
                     [](Content* gone) {
                       std::error_code ignored;
                       fs::remove(gone->link, ignored);
                       delete gone;
                     });
  // Throws where that cannot be: no test can go on without it.
  fs::create_hard_link(path, content->link);
  return content;
}

void VolatileDisk::Change(const std::string& path, ContentPtr content) {
  if (content == nullptr) {
    names_.erase(path);
  } else {
    names_[path] = content;
  }
  folders_[FolderOf(path)].changes.push_back({path, std::move(content)});
}

void VolatileDisk::Removed(const std::string& path) {
  std::lock_guard lock(mutex_);
  Change(Normal(path), nullptr);
}

void VolatileDisk::Renamed(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  const auto found = names_.find(Normal(from));
  if (found == names_.end()) return;
  const ContentPtr content = found->second;
  // The new name first: a crash between the two leaves the file under both, never under none.
  Change(Normal(to), content);
  Change(Normal(from), nullptr);
}

void VolatileDisk::Linked(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  Change(Normal(to), FindLocked(Normal(from)));
}

void VolatileDisk::Appended(const ContentPtr& content, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  content->size += bytes;
}

void VolatileDisk::Truncated(const ContentPtr& content, uint64_t size) {
  std::lock_guard lock(mutex_);
  content->size = size;
  content->synced = std::min(content->synced, size);
}

uint64_t VolatileDisk::Size(const ContentPtr& content) const {
  std::lock_guard lock(mutex_);
  return content->size;
}

void VolatileDisk::Synced(const ContentPtr& content, uint64_t size) {
  std::lock_guard lock(mutex_);
  content->synced = std::max(content->synced, size);
}

void VolatileDisk::SyncedFolder(const std::string& path) {
  std::lock_guard lock(mutex_);
  Folder& folder = folders_[Normal(path)];
  for (NameChange& change : folder.changes) {
    if (change.content == nullptr) {
      folder.synced.erase(change.path);
    } else {
      folder.synced[change.path] = std::move(change.content);
    }
  }
  folder.changes.clear();
}

void VolatileDisk::Restore(uint64_t seed) {
  std::lock_guard lock(mutex_);
  std::mt19937_64 random(seed);
  std::mt19937_64* surviving = seed == 0 ? nullptr : &random;
  for (auto& [path, folder] : folders_) RestoreFolder(&folder, surviving);
  names_.clear();
  std::set<Content*> contents;
  for (auto& [path, folder] : folders_) {
    names_.insert(folder.synced.begin(), folder.synced.end());
    for (auto& [name, content] : folder.synced) contents.insert(content.get());
  }
  for (Content* content : contents) {
    const uint64_t unsynced = content->size - content->synced;
    const uint64_t kept = surviving == nullptr ? 0 : random() % (unsynced + 1);
    content->size = content->synced = content->synced + kept;
    fs::resize_file(content->link, content->size);
  }
}

void VolatileDisk::RestoreFolder(Folder* folder, std::mt19937_64* random) {
  const size_t kept = random == nullptr ? 0 : (*random)() % (folder->changes.size() + 1);
  for (const NameChange& change : folder->changes) {
    std::error_code ignored;
    fs::remove(change.path, ignored);
  }
  std::vector<NameChange> changes = std::exchange(folder->changes, {});
  std::set<std::string> touched;
  for (const NameChange& change : changes) touched.insert(change.path);
  for (size_t i = 0; i < kept; ++i) {
    if (changes[i].content == nullptr) {
      folder->synced.erase(changes[i].path);
    } else {
      folder->synced[changes[i].path] = changes[i].content;
    }
  }
  for (const std::string& path : touched) {
    const auto found = folder->synced.find(path);
    if (found != folder->synced.end()) fs::create_hard_link(found->second->link, path);
  }
}

}  // namespace tidemark::testing
