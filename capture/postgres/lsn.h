// A place in PostgreSQL's write-ahead log: an unsigned 64-bit byte offset. Pure; safe from any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tidemark::capture::postgres {

using Lsn = uint64_t;

// X/Y, upper-case hexadecimal without leading zeros, as PostgreSQL prints it.
std::string LsnText(Lsn lsn);

// InvalidArgument unless `text` is X/Y with 1 to 8 hexadecimal digits on each side. 0/0 and
// FFFFFFFF/FFFFFFFF are refused too: they mean "none" to the server.
absl::StatusOr<Lsn> ParseLsn(std::string_view text);

// PostgreSQL counts microseconds from 2000-01-01 UTC, everybody else from 1970-01-01.
inline constexpr int64_t kPostgresEpochUnixMicros = 946'684'800'000'000;

// A time as it stands on the wire. Wraps rather than overflows: a broken peer may send anything.
constexpr int64_t UnixMicros(uint64_t postgres_micros) {
  return static_cast<int64_t>(postgres_micros + uint64_t{kPostgresEpochUnixMicros});
}

}  // namespace tidemark::capture::postgres
