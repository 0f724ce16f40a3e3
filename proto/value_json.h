// Values as text of JSON, the same wherever a row is printed: nothing passes through a double, so
// every digit stays. client/README.md has the table. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "tidemark/v1/change.pb.h"

namespace tidemark {

// insert, update, delete, truncate, read; op_<number> for any other.
std::string OpText(v1::Op op);

void AppendJsonString(std::string_view text, std::string* out);
// A value in parts is {"in_parts":<bytes>}; an absent one is {"absent":true}, though as a column it
// is left out.
void AppendJsonValue(const v1::Value& value, std::string* out);
// A column's name that begins with __ gets one more _, so that it is never taken for __op, __pos,
// __seq, __table or another member of ours.
std::string JsonColumnName(std::string_view name);
// `,"name":value`, with that name.
void AppendJsonColumn(std::string_view name, const v1::Value& value, std::string* out);

}  // namespace tidemark
