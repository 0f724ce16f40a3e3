// What tail prints when a stream breaks where it hurts, against a server that plays scripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/client/scripted_server.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"
#include "tests/testing/written_records.h"

namespace tidemark::client {
namespace {

using namespace tidemark::testing;  // NOLINT: records read better bare
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TailBreakTest : public ::testing::Test {
 protected:
  // Runs tail to its end and splits its output into lines.
  std::vector<std::string> Tail(const ScriptedServer& server) {
    ProcessOptions options;
    options.argv = {(BuildDir() / "client/tidemark").string(),
                    "tail",
                    "main",
                    "--server",
                    server.address(),
                    "--format",
                    "jsonl",
                    "--with-cursor",
                    "--cursor-file",
                    (scratch_ / "cursor").string()};
    options.output_dir = scratch_.path();
    options.name = "tail";
    auto tail = Process::Start(options);
    EXPECT_TRUE(tail.ok()) << tail.status();
    if (!tail.ok()) return {};
    const auto exit_code = (*tail)->WaitForExit(std::chrono::seconds(60));
    EXPECT_TRUE(exit_code.ok()) << exit_code.status();
    if (exit_code.ok()) exit_code_ = *exit_code;
    errors_ = (*tail)->Stderr();
    std::vector<std::string> lines;
    std::istringstream stream((*tail)->Stdout());
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  std::string StoredCursor() {
    std::string line;
    std::ifstream file(scratch_ / "cursor");
    std::getline(file, line);
    return line;
  }

  ScratchDir scratch_{"tail"};
  int exit_code_ = -1;
  std::string errors_;
};

TEST_F(TailBreakTest, SaysThatTheRowsBeginAgainAndPrintsGaps) {
  const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "lost");
  v1::SubscribeResponse gap;
  gap.mutable_gap()->set_reason("SLOT_LOST");
  gap.mutable_gap()->set_to_cursor("cursor-9");
  const auto cut = TransactionPart(5, {AccountChange(v1::OP_INSERT, 0, 3, "never finished")});
  ScriptedServer server({
      {{OpenedRecord("cursor-5", true), SchemaRecord(), RowRecord(1, "Ann"), BatchRecord({cut})},
       false,
       lost},
      {{OpenedRecord("cursor-9", true), SchemaRecord(), RowRecord(2, "Bob"),
        RowsEndRecord("cursor-9"), gap, BatchRecord({InsertTransaction(10, 4)})},
       false,
       grpc::Status::OK},
  });
  const auto lines = Tail(server);
  EXPECT_EQ(exit_code_, 0) << errors_;
  ASSERT_EQ(lines.size(), 5u) << ::testing::PrintToString(lines);
  EXPECT_THAT(lines[0], HasSubstr("\"id\":1,\"owner\":\"Ann\""));
  EXPECT_EQ(lines[1], "{\"__record\":\"rows_again\"}");
  EXPECT_THAT(lines[2], HasSubstr("\"id\":2,\"owner\":\"Bob\""));
  EXPECT_THAT(lines[3], StartsWith("{\"__record\":\"gap\",\"reason\":\"SLOT_LOST\""));
  EXPECT_THAT(lines[4], HasSubstr("\"id\":4,\"owner\":\"Ann\",\"__cursor\":\"cursor-10\""));
  EXPECT_EQ(StoredCursor(), "cursor-10");
  EXPECT_THAT(errors_, HasSubstr("tidemark: SERVER_UNREACHABLE: lost"));
  EXPECT_THAT(errors_, HasSubstr("tidemark: gap: SLOT_LOST"));
}

TEST_F(TailBreakTest, PrintsALargeTransactionOnceThoughItBreaksInTheMiddle) {
  const auto first = TransactionPart(
      20, {AccountChange(v1::OP_INSERT, 0, 1, "Ann"), AccountChange(v1::OP_INSERT, 1, 2, "Bob")});
  ScriptedServer server({
      {{OpenedRecord("cursor-5"), SchemaRecord(), BatchRecord({first})},
       false,
       grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost")},
      {{OpenedRecord("cursor-5"), SchemaRecord(), BatchRecord({first}),
        BatchRecord({LastPart(20, {AccountChange(v1::OP_INSERT, 2, 3, "Cid")}, 3)})},
       false,
       grpc::Status::OK},
  });
  const auto lines = Tail(server);
  ASSERT_EQ(lines.size(), 3u) << ::testing::PrintToString(lines) << errors_;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(lines[i], HasSubstr("\"__seq\":" + std::to_string(i) + ","));
    EXPECT_EQ(lines[i].find("__cursor") == std::string::npos, i != 2) << lines[i];
  }
}

TEST_F(TailBreakTest, EndsWithAnErrorWhenTheCursorHasExpired) {
  ScriptedServer server(
      {{{}, false, StatusWithReason(grpc::StatusCode::OUT_OF_RANGE, "CURSOR_EXPIRED")}});
  EXPECT_TRUE(Tail(server).empty());
  EXPECT_EQ(exit_code_, 4);
  EXPECT_THAT(errors_, StartsWith("tidemark: CURSOR_EXPIRED: what was found"));
  EXPECT_THAT(errors_, HasSubstr("--from snapshot"));
  EXPECT_EQ(StoredCursor(), "");
}

}  // namespace
}  // namespace tidemark::client
