#include "tests/testing/prepare_source.h"

#include <chrono>

#include "tests/testing/built_paths.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {

absl::StatusOr<std::string> PrepareSource(const LivePostgres& postgres,
                                          const SourcePreparation& preparation) {
  const ScratchDir scratch("psql");
  ProcessOptions psql;
  psql.output_dir = scratch.path();
  psql.argv = {"psql",
               "-X",
               postgres.conninfo("postgres", "user=" + preparation.as_user),
               "-v",
               "role=" + preparation.role,
               "-v",
               "publication=" + preparation.publication,
               "-v",
               "tables=" + preparation.tables,
               "-f",
               SourceDir() / "deploy/sql/prepare_source.sql"};
  return RunCommand(std::move(psql), std::chrono::seconds(60));
}

}  // namespace tidemark::testing
