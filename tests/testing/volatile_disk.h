// Which bytes and which names of a folder's files would survive a loss of power. A model beside
// real files: every change is told to it after it was made; Restore takes back what was not synced.
// Safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace tidemark::testing {

// What the model knows, as on a journaling file system: bytes of a file survive its fsync; names
// (made, renamed, removed) survive an fsync of their folder, and not that of the file. Folders
// themselves survive at once. A file that was there before anyone touched it survives.
class VolatileDisk {
 public:
  // What a file is, whatever its names.
  struct Content {
    // Kept as a hard link, so that a removed file can come back.
    std::filesystem::path link;
    uint64_t size = 0;
    uint64_t synced = 0;
  };
  using ContentPtr = std::shared_ptr<Content>;

  // `links` is a folder of its own, on the file system of the files.
  explicit VolatileDisk(std::filesystem::path links);

  // The file was made, empty; an old one of that name is gone.
  ContentPtr Made(const std::string& path);
  // The content of a file that is there; null when there is none. To be called before a file goes
  // away, changes its name or is opened again, so that it is known.
  ContentPtr Find(const std::string& path);
  void Removed(const std::string& path);
  void Renamed(const std::string& from, const std::string& to);
  void Linked(const std::string& from, const std::string& to);

  void Appended(const ContentPtr& content, uint64_t bytes);
  void Truncated(const ContentPtr& content, uint64_t size);
  uint64_t Size(const ContentPtr& content) const;
  // Everything up to `size` is on the disk.
  void Synced(const ContentPtr& content, uint64_t size);
  void SyncedFolder(const std::string& folder);

  // Takes back everything that was not synced. With a seed, some of it survives: a prefix of the
  // bytes of each file, and a prefix of the changes of names of each folder. REQUIRES: nobody has a
  // file open for writing.
  void Restore(uint64_t seed);

 private:
  // A change of a name that was not synced: null removes.
  struct NameChange {
    std::string path;
    ContentPtr content;
  };
  struct Folder {
    std::map<std::string, ContentPtr> synced;
    std::vector<NameChange> changes;
  };

  ContentPtr FindLocked(const std::string& path);
  ContentPtr NewContent(const std::string& path, uint64_t size, uint64_t synced);
  void Change(const std::string& path, ContentPtr content);
  void RestoreFolder(Folder* folder, std::mt19937_64* random);

  mutable std::mutex mutex_;
  const std::filesystem::path links_;
  uint64_t next_link_ = 0;
  std::map<std::string, ContentPtr> names_;
  std::map<std::string, Folder> folders_;
};

}  // namespace tidemark::testing
