#include "server/source_check.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TEST(SourceCheck, FindingsComeWithWhatMendsThem) {
  v1::FeedConfig feed;
  feed.set_name("shop");
  feed.mutable_postgres()->set_host("db");
  feed.mutable_postgres()->set_port(5432);
  feed.mutable_postgres()->set_database("shop");
  feed.mutable_postgres()->set_password("hunter2");
  using Severity = capture::Finding::Severity;
  EXPECT_EQ(FindingsText(feed, {{Severity::kOk, "", "wal_level is logical", ""},
                                {Severity::kWarning, "SOURCE_SETTING", "no limit", "SET x;"},
                                {Severity::kError, "SOURCE_PRIVILEGE", "may not read a",
                                 "GRANT SELECT ON a;\nGRANT SELECT ON b;"}}),
            "feed shop: postgres, database shop on db:5432\n"
            "  ok       wal_level is logical\n"
            "  warning  SOURCE_SETTING: no limit\n"
            "    mend:    SET x;\n"
            "  error    SOURCE_PRIVILEGE: may not read a\n"
            "    mend:    GRANT SELECT ON a;\n"
            "             GRANT SELECT ON b;\n");
}

TEST(SourceCheck, TheHeadingSaysWhatIsAskedAndWhere) {
  v1::FeedConfig feed;
  feed.set_name("shop");
  const auto log_in = [](auto* login, const char* host) {
    login->set_host(host);
    login->set_port(5432);
    login->set_database("shop");
    login->set_password("hunter2");
  };
  v1::FeedConfig changelog = feed;
  changelog.mutable_changelog()->set_table("tidemark.changelog");
  log_in(changelog.mutable_changelog()->mutable_postgres(), "db");
  EXPECT_EQ(FindingsText(changelog, {}),
            "feed shop: changelog tidemark.changelog, database shop on db:5432\n");
  log_in(feed.mutable_poll()->mutable_postgres(), "replica");
  EXPECT_EQ(FindingsText(feed, {}), "feed shop: poll, database shop on replica:5432\n");
  log_in(feed.mutable_postgres(), "primary");
  EXPECT_EQ(FindingsText(feed, {}),
            "feed shop: poll, database shop on replica:5432; to be moved to postgres, database "
            "shop on primary:5432\n");
}

}  // namespace
}  // namespace tidemark
