// The program logdump: what it prints where, and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "store/database.h"
#include "tests/store/store_fixture.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/process.h"

namespace tidemark::store {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class LogdumpCommandTest : public StoreFixture {
 protected:
  struct Result {
    int exit_code = -1;
    std::string out;
    std::string error;
  };

  Result Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), testing::BuildDir() / "store/logdump");
    auto process = testing::Process::Start(
        {.argv = arguments, .output_dir = scratch_.path(), .name = "logdump"});
    EXPECT_TRUE(process.ok()) << process.status();
    if (!process.ok()) return {};
    const auto exit_code = (*process)->WaitForExit(std::chrono::minutes(1));
    EXPECT_TRUE(exit_code.ok()) << exit_code.status();
    return {exit_code.value_or(-1), (*process)->Stdout(), (*process)->Stderr()};
  }

  void MakeStore() {
    OpenWithLog();
    Append({Inserts(110, {1, 2})});
    Sync();
    Fold();
  }
};

TEST_F(LogdumpCommandTest, PrintsAStoreThatIsOpenElsewhere) {
  MakeStore();
  const Result shown = Run({"show", options_.path, "--json", "--table", "public.t"});
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("\"__op\":\"insert\",\"__pos\":\"" + At(110).Text()));
  EXPECT_THAT(Run({"rows", options_.path}).out, HasSubstr("id=2"));
  EXPECT_THAT(Run({"feeds", options_.path}).out, HasSubstr("orders"));
  EXPECT_THAT(Run({"schemas", options_.path}).out, HasSubstr("public.t"));
  const Result verified = Run({"verify", options_.path});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.error;
  EXPECT_THAT(verified.out, HasSubstr("2 changes, 2 rows: 0 findings"));
}

TEST_F(LogdumpCommandTest, ExitsWith1WhereSomethingIsWrong) {
  MakeStore();
  Close();
  {
    auto database = Database::Open(options_);
    ASSERT_TRUE(database.ok()) << database.status();
    rocksdb::WriteBatch batch;
    batch.Delete((*database)->schemas(), SchemaKey(1, schema_.schema_id()));
    ASSERT_TRUE((*database)->Write(&batch, true).ok());
  }
  const Result text = Run({"verify", options_.path});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, StartsWith("schema: orders: "));
  const Result json = Run({"verify", options_.path, "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_THAT(json.out, StartsWith("{\"__record\":\"finding\",\"check\":\"schema\""));
  EXPECT_THAT(json.out, HasSubstr("{\"__record\":\"summary\""));
}

TEST_F(LogdumpCommandTest, ExitsWith2OnAWrongCommandLine) {
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"show"}).exit_code, 2);
  EXPECT_EQ(Run({"show", options_.path, "--after", "16B3748"}).exit_code, 2);
  EXPECT_EQ(Run({"rows", options_.path, "--table", "a.b.c"}).exit_code, 2);
  const Result help = Run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Exit codes:"));
}

// proves R64
TEST_F(LogdumpCommandTest, DoesNotClaimThatNothingIsMissing) {
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("cannot say that nothing is missing"));
  MakeStore();
  EXPECT_THAT(Run({"verify", options_.path}).out, Not(HasSubstr("missing")));
}

TEST_F(LogdumpCommandTest, ExitsWith3WhereThereIsNoStore) {
  const Result missing = Run({"verify", options_.path});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.error, HasSubstr("is not a store of Tidemark"));
  MakeStore();
  const Result no_feed = Run({"show", options_.path, "--feed", "nothing"});
  EXPECT_EQ(no_feed.exit_code, 3);
  EXPECT_THAT(no_feed.error, HasSubstr("no feed named nothing"));
}

}  // namespace
}  // namespace tidemark::store
