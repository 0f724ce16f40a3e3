#include "capture/postgres/fork.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

// proves S33, K10
TEST(ForkTest, PostgresItselfIsNone) {
  for (const char* text :
       {"PostgreSQL 15.20 (Debian 15.20-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc",
        "PostgreSQL 16.4 on aarch64-apple-darwin23.4.0, compiled by Apple clang",
        "PostgreSQL 17.0, compiled by Visual C++ build 1941, 64-bit",
        "PostgreSQL 17beta2 on x86_64", "PostgreSQL 18devel on x86_64-linux",
        "PostgreSQL 13.16 (Ubuntu 13.16-1.pgdg22.04+1) on x"}) {
    EXPECT_EQ(ForkOf(text, ""), "") << text;
  }
}

// proves S33, K10
TEST(ForkTest, ForksAreKnownByWhatTheyCallThemselves) {
  for (const char* text :
       {"PostgreSQL 11.2-YB-2.21.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang",
        "PostgreSQL 15.2-YB-2025.1.0.0-b0 on x86_64",
        "(openGauss 5.0.0 build a07d57c3) compiled at 2023-03-29 on x86_64",
        "PostgreSQL 9.2.4 (openGauss 3.0.0 build 02c14696) compiled at 2022",
        "PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f) on x86_64",
        "PostgreSQL 14.4 (Apache Cloudberry 1.6.0) on x86_64",
        "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.103",
        "CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)",
        "PostgreSQL 11.9 (POLARDB Database Compatible with Oracle 11.9.25)",
        "KingbaseES V008R006C008B0014 on x86_64", "PostgreSQL 15.2 (IvorySQL 2.2) on x86_64",
        "PostgreSQL 13.0 (Materialize 0.100)", "PostgreSQL", "MariaDB 10.11", ""}) {
    EXPECT_NE(ForkOf(text, ""), "") << text;
  }
}

// proves S33
TEST(ForkTest, ForksAreKnownByTheirFunctionsWhereTheyCallThemselvesPostgres) {
  const std::string text = "PostgreSQL 15.4 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit";
  EXPECT_EQ(ForkOf(text, "aurora_version"), "Amazon Aurora, " + text);
  EXPECT_EQ(ForkOf(text, "x polar_version y"), "PolarDB, " + text);
  EXPECT_EQ(ForkOf(text, "my_aurora_version"), "");
  EXPECT_NE(ForkFunctionsSql().find("'aurora_version'"), std::string::npos);
}

}  // namespace
}  // namespace tidemark::capture::postgres
