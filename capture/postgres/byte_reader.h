// Reads big-endian integers, strings and bytes from a buffer, and never beyond it. Views that it
// returns point into the buffer. One thread at a time. Every read fails with SOURCE_PROTOCOL, and
// where it stood, when the buffer ends too early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidemark::capture::postgres {

class ByteReader {
 public:
  // `what` names the buffer in errors and must outlive the reader.
  ByteReader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  absl::StatusOr<uint8_t> ReadUint8();
  absl::StatusOr<uint16_t> ReadUint16();
  absl::StatusOr<uint32_t> ReadUint32();
  absl::StatusOr<uint64_t> ReadUint64();
  absl::StatusOr<std::string_view> ReadBytes(size_t count);
  // Up to the next zero byte, which is consumed.
  absl::StatusOr<std::string_view> ReadZeroTerminated();

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }
  // SOURCE_PROTOCOL when bytes are left over.
  absl::Status ExpectEnd() const;
  absl::Status Error(std::string_view problem) const;

 private:
  std::string_view bytes_;
  std::string_view what_;
  size_t offset_ = 0;
};

}  // namespace tidemark::capture::postgres
