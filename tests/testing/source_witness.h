// PostgreSQL's own word on what was committed (sql_oracle.h), from the moment when a server under
// test is started for the first time.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tests/testing/witness.h"

namespace tidemark::testing {

// Makes a slot of its own in that database. It vouches for the plain tables that exist now under
// the names that they have, and are published whole when it is asked. It says nothing of more than
// kWitnessedBytesMax of WAL.
absl::StatusOr<Witness> CallSourceWitness(const std::string& conninfo);

inline constexpr int64_t kWitnessedBytesMax = 64 << 20;

}  // namespace tidemark::testing
