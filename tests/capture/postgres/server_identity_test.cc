#include "capture/postgres/server_identity.h"

#include <gtest/gtest.h>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

v1::PostgresIdentity Shop() {
  v1::PostgresIdentity identity;
  identity.set_system_identifier("71");
  identity.set_database("shop");
  identity.set_database_oid(16384);
  identity.set_timeline(1);
  return identity;
}

TEST(CheckSameServerTest, APromotedServerIsTheSame) {
  v1::PostgresIdentity promoted = Shop();
  promoted.set_timeline(2);
  EXPECT_TRUE(CheckSameServer(Shop(), promoted, "db").ok());
}

TEST(CheckSameServerTest, AnotherClusterOrDatabaseIsNot) {
  v1::PostgresIdentity other = Shop();
  other.set_system_identifier("72");
  EXPECT_EQ(ReasonOf(CheckSameServer(Shop(), other, "db")), reason::kSourceReplaced);
  other = Shop();
  other.set_database("stock");
  EXPECT_EQ(ReasonOf(CheckSameServer(Shop(), other, "db")), reason::kSourceReplaced);
  other = Shop();
  other.set_database_oid(16390);
  EXPECT_EQ(ReasonOf(CheckSameServer(Shop(), other, "db")), reason::kSourceReplaced);
}

TEST(CheckSameServerTest, WhatIsNotKnownIsNoDifference) {
  EXPECT_TRUE(CheckSameServer({}, Shop(), "db").ok());
  v1::PostgresIdentity unasked = Shop();
  unasked.clear_system_identifier();
  EXPECT_TRUE(CheckSameServer(Shop(), unasked, "db").ok());
  EXPECT_TRUE(CheckSameServer(unasked, Shop(), "db").ok());
}

}  // namespace
}  // namespace tidemark::capture::postgres
