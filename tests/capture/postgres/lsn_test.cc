#include "capture/postgres/lsn.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

TEST(Lsn, PrintsAsPostgresDoes) {
  EXPECT_EQ(LsnText(0x16B3748), "0/16B3748");
  EXPECT_EQ(LsnText(0x16'B374'D848), "16/B374D848");
  EXPECT_EQ(LsnText(UINT64_MAX), "FFFFFFFF/FFFFFFFF");
}

// proves S03, R21
TEST(Lsn, ReadsWhatItPrintsAndNothingElse) {
  EXPECT_EQ(*ParseLsn("16/B374D848"), 0x16'B374'D848u);
  EXPECT_EQ(*ParseLsn("0/1"), 1u);
  EXPECT_EQ(*ParseLsn("16/b374d848"), 0x16'B374'D848u);
  EXPECT_LT(*ParseLsn("3C/9"), *ParseLsn("3C/1A"));
  EXPECT_LT(*ParseLsn("7FFFFFFF/FFFFFFFF"), *ParseLsn("80000000/0"));
  for (const char* text :
       {"", "/", "0", "0/", "/0", "0/0", "FFFFFFFF/FFFFFFFF", "1/2/3", "1 /2", " 1/2", "1/2 ",
        "-1/2", "+1/2", "1/-2", "0x1/2", "G/1", "123456789/1", "1/123456789", "1/000000001"}) {
    EXPECT_FALSE(ParseLsn(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tidemark::capture::postgres
