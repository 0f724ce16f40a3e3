// The value under a key of the rows family: position (20) | sequence (8) | schema id (8) |
// serialized `values` fields of a tidemark.v1.Row, so that a row is sent without being parsed.
// Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/position.h"
#include "store/rows_reader.h"

namespace tidemark::store {

inline constexpr size_t kRowHeaderBytes = Position::kBytes + 8 + 8;

void AppendRowHeader(const Position& position, uint64_t sequence, uint64_t schema_id,
                     std::string* row);
// `serialized_value` is a tidemark.v1.Value.
void AppendRowField(std::string_view serialized_value, std::string* row);

// nullopt for a value that is too short. The views are into `row`.
std::optional<StoredRow> DecodeRow(std::string_view row);

// Takes StoredRow::values apart into one serialized Value per column; false for bytes that are no
// such fields.
bool SplitRowFields(std::string_view values, std::vector<std::string_view>* fields);

}  // namespace tidemark::store
