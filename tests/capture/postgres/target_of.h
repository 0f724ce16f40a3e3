// Where a PostgreSQL that a test started is to be found.
#pragma once

#include "capture/postgres/target.h"
#include "tests/testing/live_postgres.h"

namespace tidemark::capture::postgres {

// Its database "postgres", as its superuser.
inline Target TargetOf(const testing::LivePostgres& postgres) {
  Target target;
  target.host = "127.0.0.1";
  target.port = postgres.port();
  target.database = "postgres";
  target.user = "postgres";
  return target;
}

}  // namespace tidemark::capture::postgres
