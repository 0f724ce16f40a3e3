#include "server/wire_writer.h"

#include <google/protobuf/io/coded_stream.h>

namespace tidemark {
namespace {

using google::protobuf::io::CodedOutputStream;

constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kLength = 2;

void AppendTag(std::string* out, int field, uint32_t wire_type) {
  AppendVarint(out, static_cast<uint32_t>(field) << 3 | wire_type);
}

}  // namespace

size_t VarintBytes(uint64_t value) { return CodedOutputStream::VarintSize64(value); }

void AppendVarint(std::string* out, uint64_t value) {
  uint8_t bytes[10];
  const uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value, bytes);
  out->append(reinterpret_cast<const char*>(bytes), end - bytes);
}

void AppendVarintField(std::string* out, int field, uint64_t value) {
  AppendTag(out, field, kVarint);
  AppendVarint(out, value);
}

void AppendFixed64(std::string* out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

void AppendFixed64Field(std::string* out, int field, uint64_t value) {
  AppendTag(out, field, kFixed64);
  AppendFixed64(out, value);
}

void AppendLengthHead(std::string* out, int field, size_t bytes) {
  AppendTag(out, field, kLength);
  AppendVarint(out, bytes);
}

void AppendLengthField(std::string* out, int field, std::string_view content) {
  AppendLengthHead(out, field, content.size());
  out->append(content);
}

}  // namespace tidemark
