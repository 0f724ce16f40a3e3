// A change as one line of JSON, flat: __op, __pos, __seq, __table, then a member per column.
//
// Values: proto/value_json.h.
//
// Members beside the columns: __before (object, where the source gave the row before the change),
// __key_change (true on both changes that stand for an update of the key), __cursor (when asked
// for).
//
// Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "client/change_view.h"

namespace tidemark::client {

// The line without its end. `cursor` is left out when empty.
std::string JsonLine(const ChangeView& change, std::string_view cursor = {});

// Puts a member in front of the closing brace of a line: `,"__cursor":"…"`.
void AddCursor(std::string_view cursor, std::string* line);

}  // namespace tidemark::client
