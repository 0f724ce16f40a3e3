// Appends fields of a serialized message. Pure; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidemark {

size_t VarintBytes(uint64_t value);
void AppendVarint(std::string* out, uint64_t value);

// Tag and value; a number of 0 is written, too.
void AppendVarintField(std::string* out, int field, uint64_t value);
void AppendFixed64Field(std::string* out, int field, uint64_t value);
// Tag and length of a field whose `bytes` bytes of content come next.
void AppendLengthHead(std::string* out, int field, size_t bytes);
void AppendLengthField(std::string* out, int field, std::string_view content);
void AppendFixed64(std::string* out, uint64_t value);

}  // namespace tidemark
