#include "capture/postgres/byte_reader.h"

#include "fmt/format.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

template <typename Unsigned>
Unsigned LoadBig(std::string_view bytes, size_t offset) {
  Unsigned value = 0;
  for (size_t i = 0; i < sizeof(Unsigned); ++i) {
    value = static_cast<Unsigned>(value << 8 | static_cast<uint8_t>(bytes[offset + i]));
  }
  return value;
}

}  // namespace

absl::StatusOr<uint8_t> ByteReader::ReadUint8() {
  if (remaining() < 1) return Error("ends where a byte is expected");
  return static_cast<uint8_t>(bytes_[offset_++]);
}

absl::StatusOr<uint16_t> ByteReader::ReadUint16() {
  if (remaining() < 2) return Error("ends inside a 2-byte number");
  offset_ += 2;
  return LoadBig<uint16_t>(bytes_, offset_ - 2);
}

absl::StatusOr<uint32_t> ByteReader::ReadUint32() {
  if (remaining() < 4) return Error("ends inside a 4-byte number");
  offset_ += 4;
  return LoadBig<uint32_t>(bytes_, offset_ - 4);
}

absl::StatusOr<uint64_t> ByteReader::ReadUint64() {
  if (remaining() < 8) return Error("ends inside an 8-byte number");
  offset_ += 8;
  return LoadBig<uint64_t>(bytes_, offset_ - 8);
}

absl::StatusOr<std::string_view> ByteReader::ReadBytes(size_t count) {
  if (remaining() < count) {
    return Error(fmt::format("announces {} bytes and holds {} more", count, remaining()));
  }
  offset_ += count;
  return bytes_.substr(offset_ - count, count);
}

absl::StatusOr<std::string_view> ByteReader::ReadZeroTerminated() {
  const size_t end = bytes_.find('\0', offset_);
  if (end == std::string_view::npos) return Error("ends inside a string");
  const std::string_view text = bytes_.substr(offset_, end - offset_);
  offset_ = end + 1;
  return text;
}

absl::Status ByteReader::ExpectEnd() const {
  if (remaining() == 0) return absl::OkStatus();
  return Error(fmt::format("has {} bytes too many", remaining()));
}

absl::Status ByteReader::Error(std::string_view problem) const {
  return ErrorWithReason(
      absl::StatusCode::kDataLoss, reason::kSourceProtocol,
      fmt::format("{} of {} bytes {} (at byte {}); the server speaks a protocol that is not "
                  "PostgreSQL's, or the connection is corrupt",
                  what_, bytes_.size(), problem, offset_),
      {{"offset", std::to_string(offset_)}});
}

}  // namespace tidemark::capture::postgres
