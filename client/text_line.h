// A change as one line for people:
//
//   0000…16B3748 0 insert public.account  id=1 owner='Ann' balance=10.50
//
// Values look as in SQL; a column that is absent is left out. Not for programs: that is
// json_line.h. Pure; safe from any thread.
#pragma once

#include <string>

#include "client/change_view.h"

namespace tidemark::client {

// Longer values are cut here, with their full length behind them.
inline constexpr size_t kTextValueBytesMax = 200;

std::string TextLine(const ChangeView& change);

}  // namespace tidemark::client
