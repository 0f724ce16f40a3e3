// Memory for many byte strings that are let go together. Owned by one thread; may be moved, and
// what it holds stays where it is.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace tidemark::store {

class ByteArena {
 public:
  // Valid as long as the arena.
  char* Allocate(size_t size) {
    if (size > left_) Grow(size);
    char* at = next_;
    next_ += size;
    left_ -= size;
    return at;
  }

  std::string_view Copy(std::string_view bytes) {
    if (bytes.empty()) return {};
    char* at = Allocate(bytes.size());
    std::memcpy(at, bytes.data(), bytes.size());
    return {at, bytes.size()};
  }

  // Bytes taken from the system.
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kBlockBytes = size_t{256} << 10;

  // A large string gets a block of its own, so that the rest of the present one is not lost.
  void Grow(size_t size) {
    const size_t block = size > kBlockBytes / 4 ? size : kBlockBytes;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block));
    bytes_ += block;
    next_ = blocks_.back().get();
    left_ = block;
  }

  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  size_t left_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tidemark::store
