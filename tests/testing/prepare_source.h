// deploy/sql/prepare_source.sql, run as a person runs it. Thread rule: safe from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tests/testing/live_postgres.h"

namespace tidemark::testing {

struct SourcePreparation {
  std::string role;
  std::string publication;
  std::string tables;  // as SQL names them, separated by commas
  std::string as_user = "postgres";
};

// What psql printed.
absl::StatusOr<std::string> PrepareSource(const LivePostgres& postgres,
                                          const SourcePreparation& preparation);

}  // namespace tidemark::testing
