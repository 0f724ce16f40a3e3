#include "tests/testing/seed.h"

#include <gtest/gtest.h>

namespace tidemark::testing {
namespace {

TEST(Seed, AnythingButNothingAndZeroAsksForTheLongForm) {
  unsetenv("TIDEMARK_LONG");
  EXPECT_FALSE(IsLong());
  for (const char* no : {"", "0"}) {
    setenv("TIDEMARK_LONG", no, 1);
    EXPECT_FALSE(IsLong()) << no;
  }
  for (const char* yes : {"1", "yes", "true", "2"}) {
    setenv("TIDEMARK_LONG", yes, 1);
    EXPECT_TRUE(IsLong()) << yes;
  }
}

}  // namespace
}  // namespace tidemark::testing
