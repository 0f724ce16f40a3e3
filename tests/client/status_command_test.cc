// What `tidemark status` prints of sources that are no log, from a server that says so.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/testing/built_paths.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

// Answers GetStatus with what it is given.
class StatusServer : public v1::FeedAdmin::Service {
 public:
  explicit StatusServer(v1::FeedStatus feed) : feed_(std::move(feed)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~StatusServer() override { server_->Shutdown(); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    *response->add_feeds() = feed_;
    return grpc::Status::OK;
  }

 private:
  const v1::FeedStatus feed_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class StatusCommandTest : public ::testing::Test {
 protected:
  // What the command prints of a server with this feed.
  std::string Printed(v1::FeedStatus feed, std::vector<std::string> arguments = {}) {
    feed.set_feed("shop");
    StatusServer server(std::move(feed));
    ProcessOptions options;
    options.argv = {(BuildDir() / "client/tidemark").string(), "status", "--server",
                    server.address()};
    options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
    options.output_dir = scratch_.path();
    options.name = "status";
    auto process = Process::Start(std::move(options));
    EXPECT_TRUE(process.ok()) << process.status();
    if (!process.ok()) return "";
    EXPECT_EQ((*process)->WaitForExit(seconds(30)).value_or(-1), 0) << (*process)->Diagnostics();
    return (*process)->Stdout();
  }

  ScratchDir scratch_{"status"};
};

// proves A03, A26, A42
TEST_F(StatusCommandTest, SaysOfAPolledFeedWhatPollingCannotSee) {
  v1::FeedStatus feed;
  v1::PollStatus* poll = feed.mutable_poll();
  poll->set_polls(12);
  poll->mutable_last_began()->set_seconds(1'772'366'400);
  poll->mutable_last_took()->set_nanos(250'000'000);
  poll->set_last_rows_read(10);
  poll->set_last_changes(3);
  poll->mutable_overlap()->set_seconds(60);
  v1::PolledTableStatus* table = poll->add_tables();
  table->set_table("public.orders");
  table->set_cursor_column("updated_at");
  table->set_bound("2026-03-01 12:00:00+00");
  table->set_rows_read(1000);
  table->set_late_rows(2);
  EXPECT_THAT(
      Printed(feed),
      HasSubstr("  12 polls; the last began 2026-03-01T12:00:00Z, took 250ms, read 10 rows, "
                "found 3 changes\n"
                "  overlap 1m: the source does not say what is needed\n"
                "  table public.orders by updated_at up to 2026-03-01 12:00:00+00: 1000 "
                "rows read, 2 late\n"));

  poll->mutable_overlap_needed()->set_seconds(12);
  EXPECT_THAT(Printed(feed), HasSubstr("  overlap 1m, 12s is needed\n"));
  poll->mutable_overlap_needed()->set_seconds(75);
  poll->set_overlap_held_by("pid 4711 in shop");
  table->set_null_cursors(4);
  table->set_poison_rows(2);
  table->add_poison_keys("17");
  table->add_poison_keys("18");
  table->mutable_scan()->set_running(true);
  table->mutable_scan()->set_extra(1);
  const std::string printed = Printed(feed);
  EXPECT_THAT(printed, HasSubstr("  overlap 1m: TOO SHORT, 1m15s is needed: what is stamped "
                                 "before it is lost to polls (pid 4711 in shop)\n"));
  EXPECT_THAT(printed, HasSubstr(", 2 late, 4 without a cursor, 2 poison (keys 17, 18)\n"));
  EXPECT_THAT(printed,
              HasSubstr("    key scan since -: 0 rows read, 0 missing, 1 extra, 0 different\n"));
  EXPECT_THAT(Printed(feed, {"--json"}), HasSubstr("\"late_rows\": \"2\""));
}

// proves P21, P30
TEST_F(StatusCommandTest, SaysOfAChangelogWhatWaitsForWhom) {
  v1::FeedStatus feed;
  v1::ChangelogStatus* changelog = feed.mutable_changelog();
  changelog->set_table("tidemark.changelog");
  changelog->set_strategy("snapshot");
  changelog->set_pulls(7);
  changelog->set_highest_seq(812);
  std::string printed = Printed(feed);
  EXPECT_THAT(printed, HasSubstr("  changelog tidemark.changelog, strategy snapshot: 7 pulls; "
                                 "highest number 812\n"));
  EXPECT_THAT(printed, Not(HasSubstr("watermark")));
  changelog->set_strategy("xid_watermark");
  changelog->set_watermark_xid(774);
  changelog->set_waiting_rows(3);
  changelog->set_held_by("pid 4711 in shop, open for 1h");
  EXPECT_THAT(Printed(feed),
              HasSubstr("  watermark 774: 3 rows wait for pid 4711 in shop, open for 1h\n"));
}

TEST_F(StatusCommandTest, SaysWhatIsHeldOfTransactionsInProgress) {
  v1::FeedStatus feed;
  EXPECT_THAT(Printed(feed), Not(HasSubstr("in progress")));
  feed.mutable_in_progress()->set_transactions(2);
  feed.mutable_in_progress()->set_bytes(3 << 20);
  feed.mutable_in_progress()->set_committed(7);
  feed.mutable_in_progress()->set_rolled_back(1);
  EXPECT_THAT(Printed(feed), HasSubstr("  in progress: 2 transactions, 3.0 MiB; 7 committed, 1 "
                                       "rolled back\n"));
}

TEST_F(StatusCommandTest, SaysWhereAFeedStandsThatIsMoved) {
  v1::FeedStatus feed;
  feed.mutable_migration()->set_phase("prepared");
  feed.mutable_migration()->set_slot("tidemark_shop");
  feed.mutable_migration()->set_consistent_point("0/16B3748");
  feed.mutable_migration()->set_message("waits for a poll");
  EXPECT_THAT(Printed(feed), HasSubstr("  moved to the log: prepared, slot tidemark_shop from "
                                       "0/16B3748; waits for a poll\n"));
}

}  // namespace
}  // namespace tidemark::testing
