// Encodes the text of one PostgreSQL value as a tidemark.v1.Value. The one way for rows of a
// snapshot (COPY TO STDOUT, text format, unescaped) and of the stream (pgoutput text), so that the
// same row is the same bytes on both paths.
//
// The session that prints the text must pin: client_encoding UTF8, DateStyle ISO, IntervalStyle
// iso_8601, TimeZone UTC, bytea_output hex, extra_float_digits 3, lc_monetary C. What was printed
// otherwise is refused where that can be seen. Forms: the type table in proto/README.md.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "capture/postgres/type_catalog.h"
#include "capture/value_writer.h"

namespace tidemark::capture::postgres {

// Appends one Value as the field `tag`. Pure; safe from any thread; scalars allocate nothing beyond
// `out`. SOURCE_PROTOCOL, naming the type and the beginning of the text, when the text is not one
// of that type; what was appended to `out` is then of no use.
absl::Status EncodeText(const ValueType& type, std::string_view text, ValueTag tag,
                        std::string* out);

// A convenience for callers off the hot path.
absl::Status EncodeText(uint32_t type_oid, std::string_view text, const TypeCatalog& catalog,
                        ValueTag tag, std::string* out);

}  // namespace tidemark::capture::postgres
