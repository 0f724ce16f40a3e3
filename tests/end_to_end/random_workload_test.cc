// Whatever an application does to its tables, and whenever the server is killed: at every position
// at which a subscriber stops, it has what the source had there.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/end_to_end/workload.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/seed.h"
#include "tests/testing/wait_until.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

constexpr int kSessions = 3;
constexpr int kStops = 20;
constexpr int kKills = 3;
constexpr int kTurnsMax = 14;
constexpr int kFirstStatements = 30;
// Each is a test with a PostgreSQL of its own, so that several run at a time.
constexpr uint64_t kShares = 20;
constexpr uint64_t kSeedsDefault = 20;
// Looks at the status between two turns of the sessions, while a test waits for what moved.
constexpr int kLooksPerTurn = 20;
constexpr seconds kDeadline{90};
constexpr seconds kPatience{2};
constexpr seconds kKillDeadline{500};

using Rows = std::multiset<std::string>;

// The tables of the source at one position.
struct Copy {
  absl::Time taken;
  std::string lsn;
  std::map<std::string, std::vector<std::string>> columns;  // by table
  std::map<std::string, Rows> rows;
  std::vector<std::string> unsettled;
};

// One database, one server, one subscriber, from the beginning to the end.
class SeedRun {
 public:
  SeedRun(const LivePostgres& postgres, uint64_t seed, bool keyless)
      : postgres_(postgres),
        database_(fmt::format("seed_{}", seed)),
        keyless_(keyless),
        dice_(seed),
        all_tables_(dice_.OneIn(2)),
        in_progress_(seed % 2 == 0) {}

  void All(uint64_t seed) {
    Begin(seed);
    if (::testing::Test::HasFatalFailure()) return;
    std::set<uint64_t> moments;
    while (moments.size() < kKills) {
      moments.insert(static_cast<uint64_t>(dice_.Below(kStops * kTurnsMax / 3)));
    }
    std::thread killer([this, moments] { Kill(moments); });
    Stops();
    killer.join();
    if (!::testing::Test::HasFailure()) End();
    workload_->Stop();
    if (::testing::Test::HasFailure()) {
      std::cout << "seed " << seed << ", database " << database_ << "\n"
                << workload_->History() << tidemark_->Diagnostics() << "\n";
    }
    std::cout << fmt::format("seed {}: {} turns done, {} failed, {} transactions\n", seed,
                             workload_->committed(), workload_->failed(),
                             stream_.finished_transactions());
  }

  int compared() const { return compared_; }

 private:
  void Begin(uint64_t seed) {
    auto maintenance = postgres_.Connect();
    ASSERT_TRUE(maintenance.ok()) << maintenance.status();
    const absl::Status created = (*maintenance)->Exec("create database " + database_);
    ASSERT_TRUE(created.ok()) << created;
    auto session = postgres_.Connect(database_);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    const absl::Status made =
        session_->Exec("set lock_timeout = '150ms';" + WorkloadTables::CreateSql());
    ASSERT_TRUE(made.ok()) << made;
    WorkloadTables tables(keyless_);
    for (int i = 0; i < kFirstStatements; ++i) {
      const std::string sql = tables.RowStatement(&dice_);
      const absl::Status done = session_->Exec(sql);
      ASSERT_TRUE(done.ok()) << done << " in " << sql;
    }
    LiveTidemarkOptions options;
    options.database = database_;
    options.postgres_lines = {"slot: " + database_, "catalog_period: 1s"};
    if (!all_tables_) {
      options.postgres_lines.push_back(
          "tables: [public.plain, public.whole, public.pair, public.typed, public.parts, "
          "public.keyless]");
    }
    if (in_progress_) options.postgres_lines.emplace_back("stream_in_progress: true");
    tidemark_ = std::make_unique<LiveTidemark>(postgres_, options);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
    admin_ = v1::FeedAdmin::NewStub(grpc::CreateCustomChannel(
        tidemark_->address(), grpc::InsecureChannelCredentials(), arguments));
    workload_ = std::make_unique<Workload>(postgres_, database_, kSessions, seed, keyless_);
    v1::Until now;
    now.mutable_now();
    ReadUpTo(now);
  }

  // At random moments, beside everything else.
  void Kill(const std::set<uint64_t>& moments) {
    for (const uint64_t moment : moments) {
      EXPECT_TRUE(WaitUntil([&] { return stops_are_over_ || workload_->turns_taken() >= moment; },
                            kKillDeadline));
      if (stops_are_over_) return;
      tidemark_->Kill9();
      const absl::Status launched = tidemark_->Launch();
      EXPECT_TRUE(launched.ok()) << launched;
    }
  }

  void Stops() {
    Copy copy;
    for (int stop = 0; stop < kStops; ++stop) {
      SCOPED_TRACE(fmt::format("stop {}", stop));
      workload_->AllowTurns(1 + dice_.Below(kTurnsMax));
      const uint64_t turns = workload_->turns_allowed();
      // The sessions work while the stop before is read.
      if (stop > 0) ReadUpTo(copy);
      if (::testing::Test::HasFailure()) break;
      EXPECT_TRUE(WaitUntil([&] { return workload_->turns_taken() >= turns; }, kDeadline))
          << workload_->History();
      if (stop % 5 == 4) Settle();
      if (::testing::Test::HasFailure()) break;
      copy = TakeCopy();
    }
    stops_are_over_ = true;
    if (!::testing::Test::HasFailure()) ReadUpTo(copy);
  }

  void NoteStatus() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(5));
    context.set_wait_for_ready(true);
    v1::GetStatusRequest request;
    request.set_feed("main");
    if (!admin_->GetStatus(&context, request, &status_).ok() || status_.feeds().empty()) return;
    workload_->NoteStatus(status_.feeds(0));
  }

  // Until the feed has told everything that moved, while rows are changed on.
  void Settle() {
    workload_->AllowShapeChanges(false);
    const auto settled = [&] {
      NoteStatus();
      if (workload_->Unsettled().empty()) return true;
      if (++looks_ % kLooksPerTurn == 0) workload_->AllowTurns(1);
      return false;
    };
    EXPECT_TRUE(WaitUntil(settled, kDeadline, [&] {
      return fmt::format("{} is not settled\n{}", workload_->Unsettled().front(),
                         status_.DebugString());
    }));
    workload_->AllowShapeChanges(true);
  }

  // What is prepared may have a table locked: then the sessions go on until it has ended.
  Copy TakeCopy() {
    absl::StatusOr<Copy> copy = absl::UnknownError("");
    const auto taken = [&] {
      NoteStatus();
      workload_->HoldBack();
      const std::vector<std::string> unsettled = workload_->Unsettled();
      copy = CopyNow();
      workload_->LetGo();
      if (copy.ok()) copy->unsettled = unsettled;
      if (!Workload::IsLockError(copy.status())) return true;
      workload_->AllowTurns(1);
      return false;
    };
    EXPECT_TRUE(WaitUntil(taken, kDeadline));
    EXPECT_TRUE(copy.ok()) << copy.status();
    return copy.ok() ? *std::move(copy) : Copy();
  }

  absl::StatusOr<Copy> CopyNow() {
    Copy copy;
    const auto lsn = session_->QueryValue("select pg_current_wal_flush_lsn()");
    if (!lsn.ok()) return lsn.status();
    copy.lsn = *lsn;
    copy.taken = absl::Now();
    for (const std::string& table : WorkloadTables::Names()) {
      const auto columns =
          session_->Query("select attname from pg_attribute where attrelid = to_regclass('public." +
                          table + "') and attnum > 0 and not attisdropped order by attname");
      if (!columns.ok()) return columns.status();
      std::string list;
      for (const auto& row : columns->rows) {
        copy.columns[table].push_back(*row[0]);
        list += fmt::format("{}{}::text", list.empty() ? "" : ", ", *row[0]);
      }
      if (list.empty()) return absl::NotFoundError("there is no table " + table);
      const auto rows = session_->Query("select " + list + " from " + table);
      if (!rows.ok()) return rows.status();
      for (const auto& row : rows->rows) {
        Columns values;
        for (size_t i = 0; i < row.size(); ++i) values[copy.columns[table][i]] = row[i];
        copy.rows[table].insert(DescribeColumns(values));
      }
    }
    return copy;
  }

  // One stream from the cursor of the last stop, as often as it breaks.
  void ReadUpTo(const v1::Until& until) {
    v1::SubscribeRequest request;
    request.set_feed("main");
    *request.mutable_until() = until;
    const auto give_up = std::chrono::steady_clock::now() + kDeadline;
    LiveSubscriber subscriber(tidemark_->address(), request, &stream_);
    do {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << subscriber.end().error_message();
      subscriber.Connect();
      while (!subscriber.ReadToEnd(kPatience)) {
        ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "the stream goes on";
        // The server may wait for a table that a prepared transaction has locked.
        workload_->AllowTurns(1);
      }
    } while (!subscriber.end().ok());
  }
  void ReadUpTo(const Copy& copy) {
    v1::Until until;
    until.set_native_position(copy.lsn);
    ReadUpTo(until);
    if (!::testing::Test::HasFatalFailure()) Compare(copy, stream_);
  }

  void Compare(const Copy& copy, const RecordedStream& stream) {
    const auto folded = Fold(stream);
    ASSERT_TRUE(folded.ok()) << folded.status();
    for (const std::string& table : WorkloadTables::Names()) {
      if (std::count(copy.unsettled.begin(), copy.unsettled.end(), table) > 0) continue;
      ++compared_;
      Rows here;
      const auto found = folded->find("public." + table);
      if (found != folded->end()) {
        for (const auto& [key, row] : found->second) {
          // A row says nothing of columns that came later, and of some that are gone.
          Columns values;
          for (const std::string& column : copy.columns.at(table)) {
            const auto value = row.find(column);
            values[column] = value == row.end() ? std::nullopt : value->second;
          }
          here.insert(DescribeColumns(values));
        }
      }
      const auto there = copy.rows.find(table);
      EXPECT_TRUE(here == (there == copy.rows.end() ? Rows() : there->second))
          << table << " differs at " << copy.lsn << " of " << absl::FormatTime(copy.taken) << "\n"
          << LastChanges(stream, "public." + table)
          << Difference(here, there == copy.rows.end() ? Rows() : there->second);
    }
  }

  // What came of a table last, in short.
  static std::string LastChanges(const RecordedStream& stream, const std::string& table) {
    const auto transactions = SeenTransactions(stream);
    if (!transactions.ok()) return std::string(transactions.status().message());
    std::vector<std::string> lines;
    for (const RecordedTransaction& transaction : *transactions) {
      std::map<std::string, int> ops;
      for (const RecordedChange& change : transaction.changes) {
        if (change.table == table) ++ops[change.op];
      }
      for (const auto& [op, count] : ops) {
        lines.push_back(fmt::format("  {} {} {}\n", transaction.position, op, count));
      }
    }
    std::string text;
    for (size_t i = lines.size() > 8 ? lines.size() - 8 : 0; i < lines.size(); ++i)
      text += lines[i];
    return text;
  }

  static std::string Difference(const Rows& here, const Rows& there) {
    std::string text;
    const auto list = [&](const Rows& from, const Rows& without, const std::string& whose) {
      Rows only;
      std::set_difference(from.begin(), from.end(), without.begin(), without.end(),
                          std::inserter(only, only.end()));
      int printed = 0;
      for (const std::string& row : only) {
        if (++printed > 5) break;
        text += fmt::format("  only {}: {}\n", whose, Shortened(row));
      }
    };
    list(here, there, "here");
    list(there, here, "at the source");
    return text;
  }

  static std::string Shortened(const std::string& row) {
    const size_t big = row.find("big='");
    if (big == std::string::npos) return row;
    const size_t end = row.find('\'', big + 5);
    if (end == std::string::npos || end - big < 40) return row;
    return fmt::format("{}… {} bytes{}", row.substr(0, big + 20), end - big - 5, row.substr(end));
  }

  void End() {
    Settle();
    // Also tables that are not compared: what a reading tells may take a place before the stop that
    // is read in pieces first, and then once more as a whole.
    EXPECT_TRUE(WaitUntil(
        [&] {
          NoteStatus();
          const auto& feeds = status_.feeds();
          return !feeds.empty() &&
                 std::none_of(feeds[0].tables().begin(), feeds[0].tables().end(),
                              [](const v1::TableStatus& table) {
                                return table.state() == v1::TABLE_FOLLOW_STATE_READING;
                              });
        },
        kDeadline, [&] { return status_.DebugString(); }));
    const Copy copy = TakeCopy();
    ASSERT_TRUE(copy.unsettled.empty());
    ReadUpTo(copy);
    RecordedStream whole("the whole log");
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_start()->mutable_earliest();
    request.mutable_until()->set_native_position(copy.lsn);
    LiveSubscriber reader(tidemark_->address(), request, &whole);
    reader.Connect();
    ASSERT_TRUE(reader.ReadToEnd(kDeadline));
    ASSERT_TRUE(reader.end().ok()) << reader.end().error_message();
    CompareLogs(whole);
    RecordedStream rows("the rows");
    // They may be newer than the copy, though nothing was changed since.
    request.mutable_start()->mutable_snapshot();
    request.mutable_until()->mutable_now();
    LiveSubscriber newcomer(tidemark_->address(), request, &rows);
    newcomer.Connect();
    ASSERT_TRUE(newcomer.ReadToEnd(kDeadline));
    ASSERT_TRUE(newcomer.end().ok()) << newcomer.end().error_message();
    Compare(copy, rows);
    Verify();
  }

  // What came in many reads, up to many stops, is the log that one read gives.
  void CompareLogs(const RecordedStream& whole) {
    const auto once = SeenTransactions(whole);
    const auto pieces = SeenTransactions(stream_);
    ASSERT_TRUE(once.ok() && pieces.ok()) << once.status() << pieces.status();
    ASSERT_EQ(PositionsOf(*once), PositionsOf(*pieces));
    for (size_t i = 0; i < once->size(); ++i) {
      EXPECT_TRUE((*once)[i].changes == (*pieces)[i].changes) << (*once)[i].position;
    }
  }

  static std::vector<std::string> PositionsOf(const std::vector<RecordedTransaction>& of) {
    std::vector<std::string> positions;
    for (const RecordedTransaction& transaction : of) positions.push_back(transaction.position);
    return positions;
  }

  void Verify() {
    tidemark_->Kill9();
    const absl::Status verified = tidemark_->VerifyStore();
    EXPECT_TRUE(verified.ok()) << verified;
  }

  const LivePostgres& postgres_;
  const std::string database_;
  const bool keyless_;
  Dice dice_;
  const bool all_tables_;
  // Transactions that are not tiny come while they are in progress.
  const bool in_progress_;
  std::unique_ptr<PgSession> session_;
  std::unique_ptr<LiveTidemark> tidemark_;
  std::unique_ptr<v1::FeedAdmin::Stub> admin_;
  v1::GetStatusResponse status_;
  std::unique_ptr<Workload> workload_;
  RecordedStream stream_{"stops"};
  std::atomic<bool> stops_are_over_ = false;
  int compared_ = 0;
  int looks_ = 0;
};

class WorkloadFixture : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    LivePostgresOptions options;
    options.settings = {{"max_prepared_transactions", "20"},
                        {"max_replication_slots", "100"},
                        {"max_wal_senders", "100"},
                        {"max_connections", "300"},
                        // The least that there is.
                        {"logical_decoding_work_mem", "64kB"}};
    auto postgres = LivePostgres::Create(std::move(options));
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
  }

  // How many tables were compared.
  int Run(uint64_t seed, bool keyless) {
    SCOPED_TRACE(fmt::format("again with TIDEMARK_SEED={} TIDEMARK_SEEDS=1", seed));
    SeedRun run(*postgres_, seed, keyless);
    run.All(seed);
    return run.compared();
  }

  std::unique_ptr<LivePostgres> postgres_;
};

// The parameter is a share of the seeds.
class RandomWorkloadTest : public WorkloadFixture {};

// proves B163, O1
TEST_P(RandomWorkloadTest, StateEqualsTheSourceAtEveryStop) {
  const uint64_t seeds = NumberFromEnvironment("TIDEMARK_SEEDS", kSeedsDefault);
  for (uint64_t i = GetParam(); i < seeds && !HasFailure(); i += kShares) {
    EXPECT_GT(Run(SeedFromEnvironment() + i, /*keyless=*/true), kStops)
        << "hardly a table was ever settled";
  }
}
INSTANTIATE_TEST_SUITE_P(Shares, RandomWorkloadTest, ::testing::Range<uint64_t>(0, kShares));

// The parameter is a seed that once failed, when all tables had a key.
class RandomWorkloadRegressionTest : public WorkloadFixture {};

TEST_P(RandomWorkloadRegressionTest, StateEqualsTheSourceAtEveryStop) {
  EXPECT_GT(Run(GetParam(), /*keyless=*/false), kStops);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomWorkloadRegressionTest,
                         ::testing::Values<uint64_t>(2, 1141, 2042, 2281, 3013, 3090, 3252));

}  // namespace
}  // namespace tidemark::testing
