// A change as one record of CSV (RFC 4180, lines end in \n): __op, __pos, __seq, __table, __absent,
// then a field per column of one table.
//
//   boolean       true, false            decimal, text, temporal, json   the source's own text
//   integer       all its digits         binary                          base64
//   float         the shortest that reads back equal; NaN, Infinity, -Infinity
//   list, composite   JSON, as in json_line.h
//   NULL          nothing between the commas; an empty text is ""
//   absent        nothing, and the column's name in __absent, by spaces
//
// A column whose name begins with __ gets one more _ in front. Pure; safe from any thread.
#pragma once

#include <string>

#include "client/change_view.h"

namespace tidemark::client {

// Both without the line's end. A delete has the columns of its key; the rest are absent.
std::string CsvHeader(const v1::TableSchema& schema);
std::string CsvLine(const ChangeView& change);

void AppendCsvText(std::string_view text, std::string* out);

}  // namespace tidemark::client
