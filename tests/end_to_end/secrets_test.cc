// The password of a source: from where it comes, that it is rotated while the server runs, and that
// it stands nowhere.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/file_text.h"

namespace tidemark::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SecretsTest : public TableFixture {
 protected:
  void SetUp() override {
    SetUpPostgres({.hba_lines = {"host all capture 127.0.0.1/32 scram-sha-256"}});
    Exec({"create table t (id int primary key)", "create role capture login replication",
          "grant select on t, marker to capture",
          "create publication tidemark_main for table t, marker"});
    SetPassword("first-secret");
  }

  // At the server.
  void SetPassword(const std::string& password) {
    passwords_.push_back(password);
    Exec({"alter role capture password '" + password + "'"});
  }
  std::string File() const { return (scratch_ / "secret").string(); }
  void WriteFile(const std::string& text) const {
    std::ofstream(File(), std::ios::trunc) << text;
    std::filesystem::permissions(
        File(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  // In the form of a password file of libpq.
  void WritePassFile(const std::string& password) const {
    WriteFile(fmt::format("127.0.0.1:{}:postgres:capture:{}\n", postgres_->port(), password));
  }
  static LiveTidemarkOptions AsCapture(std::vector<std::string> postgres_lines) {
    LiveTidemarkOptions options;
    options.user = "capture";
    options.postgres_lines = std::move(postgres_lines);
    return options;
  }

  void EndSessions(const std::string& backend_type) {
    Exec(
        {fmt::format("select pg_terminate_backend(pid) from pg_stat_activity where usename = "
                     "'capture' and backend_type like '{}'",
                     backend_type)});
  }
  // `tidemark status` names what is wrong, and what to look at.
  void ExpectRefused(const std::string& what) {
    const absl::Status said = tidemark_->WaitForStatus(what);
    ASSERT_TRUE(said.ok()) << said;
    const auto status = tidemark_->Run({"status", "main"});
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_THAT(status->out, AllOf(HasSubstr("SOURCE_AUTHENTICATION"), HasSubstr(what)));
    const auto check = tidemark_->Check();
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(check->exit_code, 5);
    EXPECT_THAT(check->out, AllOf(HasSubstr("SOURCE_AUTHENTICATION"), HasSubstr(what)));
  }
  // The session beside the stream was made anew, and is of use.
  void ExpectTablesAreRead() {
    ASSERT_TRUE(StartSnapshot("public.t").ok());
    ASSERT_TRUE(WaitForState("public.t", v1::TABLE_FOLLOW_STATE_FOLLOWED, "asked for"));
    EXPECT_TRUE(WaitUntil([&] { return !StatusOfFeed().has_last_error(); }, kDeadline,
                          [&] { return StatusOfFeed().ShortDebugString(); }));
  }
  void ExpectEqualToSource() {
    CatchUp();
    EXPECT_EQ(Here("public.t"), There("public.t"));
  }

  // In nothing that the server and the commands wrote: outputs, events, the store.
  void ExpectNowhere() const {
    int files = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(tidemark_->scratch_dir())) {
      if (!entry.is_regular_file() || entry.path() == tidemark_->config_file()) continue;
      ++files;
      const std::string text = FileText(entry.path());
      for (const std::string& password : passwords_) {
        EXPECT_THAT(text.find(password), std::string::npos) << entry.path() << " " << password;
      }
    }
    EXPECT_GT(files, 5);
  }

  ScratchDir scratch_{"secrets"};
  std::vector<std::string> passwords_;
};

// proves B167: the file first, then the sessions end; every session takes up what it holds then.
TEST_F(SecretsTest, AFileIsRotatedWhileItRuns) {
  WriteFile("first-secret\n");
  StartServer(AsCapture({"password_file: " + File()}));
  SetPassword("second-secret");
  WriteFile("second-secret\r\nnot this one\n");
  EndSessions("%");
  Exec({"insert into t values (1)"});
  ExpectEqualToSource();
  ExpectTablesAreRead();
  // Only those beside the stream: they are made anew with what the file holds by now.
  SetPassword("third-secret");
  WriteFile("third-secret");
  EndSessions("client backend");
  ExpectTablesAreRead();
  Exec({"insert into t values (2)"});
  ExpectEqualToSource();
  ExpectNowhere();
}

// proves B167: it is said what is wrong, and it passes by itself.
TEST_F(SecretsTest, AFileThatComesLateIsWaitedFor) {
  WriteFile("first-secret\n");
  StartServer(AsCapture({"password_file: " + File()}));
  SetPassword("second-secret");
  EndSessions("%");
  Exec({"insert into t values (1)"});
  ExpectRefused("password authentication failed");
  WriteFile("second-secret\n");
  ExpectEqualToSource();

  // While it is written anew it is empty, or not there.
  SetPassword("third-secret");
  WriteFile("");
  EndSessions("%");
  Exec({"insert into t values (2)"});
  ExpectRefused("password_file " + File() + " has no password");
  std::filesystem::remove(File());
  ExpectRefused("password_file " + File() + " cannot be read");
  WriteFile("third-secret\n");
  ExpectEqualToSource();
  ExpectTablesAreRead();
  ExpectNowhere();
}

// proves B167
TEST_F(SecretsTest, APasswordFileOfTheClientLibraryIsRotated) {
  WritePassFile("first-secret");
  LiveTidemarkOptions options = AsCapture({});
  options.environment = {{"PGPASSFILE", File()}};
  StartServer(options);
  SetPassword("second-secret");
  EndSessions("%");
  Exec({"insert into t values (1)"});
  ExpectRefused("password authentication failed");
  WritePassFile("second-secret");
  ExpectEqualToSource();
  ExpectTablesAreRead();
  const auto check = tidemark_->Check();
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->exit_code, 0) << check->out;
  ExpectNowhere();
}

// proves B167: where no variable names one, it is ~/.pgpass.
TEST_F(SecretsTest, ThePasswordFileOfTheHomeFolderIsRead) {
  WritePassFile("first-secret");
  std::filesystem::rename(File(), scratch_ / ".pgpass");
  LiveTidemarkOptions options = AsCapture({});
  options.environment = {{"HOME", scratch_.path().string()}};
  StartServer(options);
  Exec({"insert into t values (1)"});
  ExpectEqualToSource();
  ExpectNowhere();
}

// proves B167
TEST_F(SecretsTest, AWrongPasswordStandsNowhere) {
  passwords_.push_back("hunter2-wrong");
  tidemark_ = std::make_unique<LiveTidemark>(
      *postgres_, AsCapture({"password: hunter2-wrong", "catalog_period: 1s"}));
  ASSERT_TRUE(tidemark_->Launch().ok());
  ExpectRefused("check user, password and password_file");
  for (const char* command : {"status", "describe", "streams"}) {
    (void)tidemark_->Run({command, "main", "--json"});
  }
  const auto stopped = tidemark_->Stop();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  ExpectNowhere();
}

}  // namespace
}  // namespace tidemark::testing
