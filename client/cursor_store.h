// Where a client keeps the cursor of what it has finished with.
//
// A client whose effects go to a database stores the cursor there, in the transaction of the
// effects, and needs nothing from here: then no change can take effect twice. CursorFile is for
// effects that are a file or a pipe.
//
// Thread rule: one thread at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidemark::client {

class CursorStore {
 public:
  virtual ~CursorStore() = default;

  // nullopt: none was ever stored. Anything that is there and is no cursor is an error, never
  // nullopt: a client that took damage for "none yet" would start over in silence.
  virtual absl::StatusOr<std::optional<std::string>> Load() = 0;

  // Once it returns OK, Load gives this cursor, also after a power loss; after an error Load gives
  // this one or the one before.
  virtual absl::Status Store(std::string_view cursor) = 0;
};

// A text file of one line: the cursor. Replaced as a whole (temporary file in the same folder,
// fsync, rename, fsync of the folder).
class CursorFile : public CursorStore {
 public:
  // Longest cursor that a server makes, see proto/README.md.
  static constexpr size_t kCursorBytesMax = 2048;

  explicit CursorFile(std::filesystem::path path) : path_(std::move(path)) {}

  // CURSOR_FILE_DAMAGED, CURSOR_FILE_IO.
  absl::StatusOr<std::optional<std::string>> Load() override;
  absl::Status Store(std::string_view cursor) override;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tidemark::client
