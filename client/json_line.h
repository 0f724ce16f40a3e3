// A change as one line of JSON, flat: __op, __pos, __seq, __table, then a member per column.
//
// Nothing passes through a double on the way:
//   boolean                  true, false
//   integer, unsigned        number, all digits (parse it as 64-bit)
//   float32, float64         number, the shortest that reads back equal; "NaN", "Infinity",
//   "-Infinity" decimal                  string with the source's digits text, temporal string json
//   string: the source's text, byte for byte binary                   string, base64 list array;
//   with other lower bounds than 1 {"lower_bounds":[..],"items":[..]} composite array of the
//   attributes' values NULL                     null; an absent column is left out
//
// Members beside the columns: __before (object, where the source gave the row before the change),
// __key_change (true on both changes that stand for an update of the key), __cursor (when asked
// for). A column whose name begins with __ gets one more _ in front, so it can never be taken for
// one of these.
//
// Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "client/change_view.h"

namespace tidemark::client {

// insert, update, delete, truncate, read.
std::string_view OpText(v1::Op op);

// The line without its end. `cursor` is left out when empty.
std::string JsonLine(const ChangeView& change, std::string_view cursor = {});

// Puts a member in front of the closing brace of a line: `,"__cursor":"…"`.
void AddCursor(std::string_view cursor, std::string* line);

void AppendJsonString(std::string_view text, std::string* out);
void AppendJsonValue(const v1::Value& value, std::string* out);

}  // namespace tidemark::client
