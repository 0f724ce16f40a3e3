// Values as text and as JSON, the way `tidemark tail` prints them: nothing passes through a double,
// so every digit stays. Integers are JSON numbers (parse them as 64-bit), decimals, times and json
// are strings with the source's text, bytes are base64, floats are numbers or "NaN", "Infinity",
// "-Infinity", lists and composites arrays; NULL is null. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "tidemark/v1/change.pb.h"

namespace tidemark::store {

// insert, update, delete, truncate, read; op_<number> for any other.
std::string OpText(v1::Op op);

void AppendJsonString(std::string_view text, std::string* out);
// A value in parts is {"in_parts":<bytes>}; an absent one is {"absent":true}, though as a column it
// is left out.
void AppendJsonValue(const v1::Value& value, std::string* out);

// `,"name":value` for each column that is not absent. A name that begins with __ gets one more _,
// so that it is never taken for __op, __pos, __seq or __table.
void AppendJsonColumns(const v1::TableSchema& schema,
                       const google::protobuf::RepeatedPtrField<v1::Value>& values,
                       std::string* out);

// As JSON, but an absent value is `-`.
std::string PlainValue(const v1::Value& value);

}  // namespace tidemark::store
