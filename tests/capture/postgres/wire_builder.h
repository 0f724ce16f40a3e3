// Writes pgoutput messages and replication frames byte by byte, for tests of what reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidemark::capture::postgres {

class Wire {
 public:
  Wire& Byte(int value) {
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  Wire& Int16(uint64_t value) { return Big(value, 2); }
  Wire& Int32(uint64_t value) { return Big(value, 4); }
  Wire& Int64(uint64_t value) { return Big(value, 8); }
  Wire& String(std::string_view text) {
    bytes_.append(text);
    return Byte(0);
  }
  Wire& Raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  // Columns of a tuple.
  Wire& Text(std::string_view text) { return Byte('t').Int32(text.size()).Raw(text); }
  Wire& Binary(std::string_view bytes) { return Byte('b').Int32(bytes.size()).Raw(bytes); }
  Wire& Null() { return Byte('n'); }
  Wire& Unchanged() { return Byte('u'); }

  const std::string& bytes() const { return bytes_; }
  operator std::string_view() const { return bytes_; }  // NOLINT: stands for its bytes

 private:
  Wire& Big(uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }

  std::string bytes_;
};

inline Wire Message(char type) {
  Wire wire;
  wire.Byte(type);
  return wire;
}

inline Wire Begin(uint64_t commit_lsn, uint32_t xid) {
  return Message('B').Int64(commit_lsn).Int64(0).Int32(xid);
}

inline Wire Commit(uint64_t commit_lsn, uint64_t end_lsn) {
  return Message('C').Byte(0).Int64(commit_lsn).Int64(end_lsn).Int64(0);
}

}  // namespace tidemark::capture::postgres
