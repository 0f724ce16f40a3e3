// Kills anything, and loses nothing: three writers, and at random moments SIGKILL to the server, to
// a client or to the walsender. What a subscriber merged equals what the source says it committed,
// and the rows equal the tables.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "tests/end_to_end/source_rows.h"
#include "tests/end_to_end/writers.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/sql_oracle.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

constexpr int kWriters = 3;
constexpr int kTransactionsPerRound = 60;

uint64_t Seed() {
  const char* seed = std::getenv("TIDEMARK_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
}

// Every line that a tail printed, by the (position, sequence) in it. A line that comes again must
// be the same line.
class MergedLines {
 public:
  void Add(const std::string& output) {
    for (const auto& [key, line] : Parse(output)) {
      const auto at = lines_.emplace(key, line).first;
      EXPECT_EQ(at->second, line) << "a change came again and differs";
    }
  }
  // How many there would be with these.
  size_t SizeWith(const std::string& output) const {
    std::set<std::string> more;
    for (const auto& [key, line] : Parse(output)) {
      if (lines_.count(key) == 0) more.insert(key);
    }
    return lines_.size() + more.size();
  }
  const std::map<std::string, std::string>& lines() const { return lines_; }

  static std::string Key(const RecordedChange& change) {
    return change.position + " " + Pad(std::to_string(change.sequence));
  }

 private:
  static std::vector<std::pair<std::string, std::string>> Parse(const std::string& output) {
    std::vector<std::pair<std::string, std::string>> parsed;
    std::istringstream lines(output);
    // A killed process may leave a torn line, which is not counted.
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      parsed.emplace_back(Field(line, "__pos") + " " + Pad(Field(line, "__seq")), line);
    }
    return parsed;
  }
  static std::string Pad(const std::string& number) {
    return std::string(20 - number.size(), '0') + number;
  }
  static std::string Field(const std::string& line, const std::string& name) {
    size_t begin = line.find("\"" + name + "\":") + name.size() + 3;
    if (line[begin] == '"') ++begin;
    return line.substr(begin, line.find_first_of("\",}", begin) - begin);
  }
  std::map<std::string, std::string> lines_;
};

class KillLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::cout << "seed " << Seed() << "; again with TIDEMARK_SEED=" << Seed() << "\n";
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    ASSERT_TRUE(postgres_->Exec(Writers::CreateTables(kWriters)).ok());
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
    auto oracle = SqlOracle::Create(postgres_->conninfo(), "oracle");
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    oracle_ = *std::move(oracle);
    StartTail();
  }

  void StartTail() {
    auto tail = tidemark_->Launch(
        "tail", {"tail", "main", "--from", "earliest", "--format", "jsonl", "--cursor-file",
                 (tidemark_->scratch_dir() / "cursor").string()});
    ASSERT_TRUE(tail.ok()) << tail.status();
    tail_ = *std::move(tail);
  }
  void KillTail() {
    tail_->Kill9();
    merged_.Add(tail_->Stdout());
    StartTail();
  }
  void KillServer() {
    tidemark_->Kill9();
    const absl::Status launched = tidemark_->Launch();
    ASSERT_TRUE(launched.ok()) << launched;
  }
  // The database restarts by itself: a backend that dies of SIGKILL takes all sessions with it.
  void KillWalsender() {
    const auto pid = postgres_->QueryValue(
        "select active_pid from pg_replication_slots where slot_name = 'tidemark_main'");
    if (pid.ok() && !pid->empty()) kill(std::atoi(pid->c_str()), SIGKILL);
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
  std::unique_ptr<SqlOracle> oracle_;
  std::unique_ptr<Process> tail_;
  MergedLines merged_;
};

// proves R05, R06, R09, R14, R24, R40, R45, R61, S38, B161, O1, O3, O4
TEST_F(KillLoopTest, NoKillLosesRepeatsOrReordersAChange) {
  const int rounds = 60;
  std::mt19937_64 random(Seed());
  v1::SubscribeRequest request;
  request.set_feed("main");
  request.mutable_start()->mutable_earliest();
  RecordedStream recording("kill loop");
  LiveSubscriber subscriber(tidemark_->address(), request, &recording);
  Writers writers(*postgres_, kWriters, Seed());

  for (int round = 0; round < rounds; ++round) {
    writers.AllowTransactions(kTransactionsPerRound);
    // Fewer than what the round surely commits, so that the moment comes in mid-stream.
    const uint64_t target = recording.finished_transactions() + random() % 10;
    ASSERT_TRUE(subscriber.FollowUntil(
        [&] { return recording.finished_transactions() >= target || writers.IsIdle(); },
        seconds(60)))
        << "round " << round << "\n"
        << tidemark_->Diagnostics();
    switch (random() % 4) {
      case 0:
        KillServer();
        break;
      case 1:
        KillTail();
        break;
      case 2:
        KillWalsender();
        break;
      default:
        subscriber.Disconnect();
    }
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
  }
  ASSERT_TRUE(WaitUntil([&] { return writers.IsIdle(); }, seconds(60)));
  writers.Stop();
  ASSERT_TRUE(WaitUntil([&] { return postgres_->Exec("select 1").ok(); }, seconds(60)));

  const auto committed = oracle_->Transactions();
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_GT(committed->size(), static_cast<size_t>(rounds) * kTransactionsPerRound / 4)
      << "the writers hardly wrote";
  ASSERT_TRUE(subscriber.FollowUntil(
      [&] { return recording.finished_transactions() >= committed->size(); }, seconds(120)))
      << tidemark_->Diagnostics();
  EXPECT_TRUE(CheckComplete(recording, *committed).ok()) << CheckComplete(recording, *committed);

  // The tail that was killed merged the same log.
  const auto seen = SeenTransactions(recording);
  ASSERT_TRUE(seen.ok()) << seen.status();
  std::set<std::string> keys;
  for (const RecordedTransaction& transaction : *seen) {
    for (const RecordedChange& change : transaction.changes) keys.insert(MergedLines::Key(change));
  }
  const auto tail_is_complete = [&] { return merged_.SizeWith(tail_->Stdout()) >= keys.size(); };
  ASSERT_TRUE(WaitUntil(tail_is_complete, seconds(60), [&] { return tail_->Diagnostics(); }));
  merged_.Add(tail_->Stdout());
  std::set<std::string> merged_keys;
  for (const auto& [key, line] : merged_.lines()) merged_keys.insert(key);
  EXPECT_EQ(merged_keys, keys);

  // Rows equal the tables: folded by the subscriber, and as the server hands them to a new one.
  auto session = postgres_->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  RecordedStream bootstrap("bootstrap");
  request.mutable_start()->mutable_snapshot();
  LiveSubscriber newcomer(tidemark_->address(), request, &bootstrap);
  newcomer.Connect();
  ASSERT_TRUE(newcomer.ReadUntilLive(seconds(60)));
  const auto folded = Fold(recording);
  const auto rows = Fold(bootstrap);
  ASSERT_TRUE(folded.ok() && rows.ok()) << folded.status() << rows.status();
  for (const std::string table : {"shared", "w0", "w1", "w2"}) {
    const auto source = SourceRows(**session, table);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(RowsById(*folded, table), *source) << table;
    EXPECT_EQ(RowsById(*rows, table), *source) << table;
  }

  // What is left on disk is in order too.
  tidemark_->Kill9();
  const absl::Status verified = tidemark_->VerifyStore();
  EXPECT_TRUE(verified.ok()) << verified;
}

}  // namespace
}  // namespace tidemark::testing
