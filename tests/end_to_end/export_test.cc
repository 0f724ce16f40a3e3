// tidemark export: a file that is there only when it is whole, the same however often the export,
// the server or the disk failed on the way.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <thread>

#include "proto/position.h"
#include "tests/end_to_end/statement_writer.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/sql_oracle.h"
#include "tests/testing/wait_until.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A member of a manifest or a state; all of them are text.
std::string Member(const std::string& json, const std::string& name) {
  const std::string key = "\"" + name + "\": \"";
  const size_t at = json.find(key);
  if (at == std::string::npos) return "";
  return json.substr(at + key.size(), json.find('"', at + key.size()) - at - key.size());
}

class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Sql("create table item (id bigint primary key, name text, price numeric(10,2), tags text[], "
        "data bytea)");
    Sql("create table other (id bigint primary key, payload text)");
    Sql("insert into item values (1, 'first', 1.50, '{a,\"b c\"}', '\\x00ff')");
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  void Sql(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done;
  }
  std::filesystem::path Path(const std::string& name) const {
    return tidemark_->scratch_dir() / name;
  }
  std::vector<std::string> Arguments(const std::string& file,
                                     const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"export", "main", "--out", Path(file).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  CommandResult Export(const std::string& file, const std::vector<std::string>& more = {}) {
    const auto result = tidemark_->Run(Arguments(file, more), seconds(120));
    EXPECT_TRUE(result.ok()) << result.status() << tidemark_->Diagnostics();
    return result.value_or(CommandResult());
  }
  std::string Sha256(const std::string& file) {
    ProcessOptions options;
    options.argv = {"sha256sum", Path(file).string()};
    options.output_dir = tidemark_->scratch_dir();
    options.name = "sha256sum";
    const auto sum = RunCommand(options, seconds(30));
    return sum.ok() ? sum->substr(0, 64) : sum.status().ToString();
  }
  v1::FeedStatus Status() {
    const auto stub = v1::FeedAdmin::NewStub(
        grpc::CreateChannel(tidemark_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetStatusRequest request;
    v1::GetStatusResponse response;
    request.set_feed("main");
    const grpc::Status called = stub->GetStatus(&context, request, &response);
    EXPECT_TRUE(called.ok()) << called.error_message();
    return response.feeds_size() == 1 ? response.feeds(0) : v1::FeedStatus();
  }
  // About 40 MB in transactions of all sizes.
  void WriteMuch() {
    for (int i = 0; i < 40; ++i) {
      Sql(
          fmt::format("insert into other select {} + j, repeat(md5(j::text), 30) from "
                      "generate_series(1, {}) j",
                      i * 10'000, i == 20 ? 8'000 : 800));
    }
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
};

// proves S34, S37
TEST_F(ExportTest, WritesAStretchAndItsManifestAndGoesOnBehindIt) {
  Sql("insert into item values (2, 'second', 2, null, null), (3, '', null, '{}', '')");
  Sql("update item set price = 9.99 where id = 2");
  const CommandResult first = Export("first.jsonl", {"--from", "snapshot", "--until", "now"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  // How much of it comes as rows depends on how far these are folded by now.
  const std::string manifest = FileText(Path("first.jsonl.manifest.json"));
  const std::vector<std::string> written = LinesOf(FileText(Path("first.jsonl")));
  const std::string rows = Member(manifest, "rows");
  const std::string changes = Member(manifest, "changes");
  EXPECT_THAT(rows + "+" + changes, ::testing::AnyOf("1+3", "3+1", "3+0"));
  EXPECT_EQ(written.size(), std::stoul(rows) + std::stoul(changes));
  EXPECT_THAT(first.out, HasSubstr(fmt::format("first.jsonl: {} rows, ", rows)));
  std::map<std::string, std::string> prices;
  const std::regex row("\"id\":(\\d+),.*\"price\":([^,]*),");
  for (const std::string& line : written) {
    std::smatch parts;
    ASSERT_TRUE(std::regex_search(line, parts, row)) << line;
    prices[parts[1]] = parts[2];
  }
  EXPECT_EQ(prices, (std::map<std::string, std::string>{
                        {"1", "\"1.50\""}, {"2", "\"9.99\""}, {"3", "null"}}));
  EXPECT_EQ(Member(manifest, "sha256"), Sha256("first.jsonl"));
  EXPECT_EQ(Member(manifest, "bytes"),
            std::to_string(std::filesystem::file_size(Path("first.jsonl"))));
  EXPECT_EQ(Member(manifest, "public.item"), std::to_string(written.size()));
  EXPECT_NE(Member(manifest, "bound"), "");
  EXPECT_FALSE(std::filesystem::exists(Path("first.jsonl.part")));
  EXPECT_FALSE(std::filesystem::exists(Path("first.jsonl.part.state")));

  Sql("delete from item where id = 3");
  const CommandResult second =
      Export("second.jsonl", {"--from", Member(manifest, "last_cursor"), "--until", "now"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  const auto lines = LinesOf(FileText(Path("second.jsonl")));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("\"__op\":\"delete\""));
  EXPECT_EQ(Member(FileText(Path("second.jsonl.manifest.json")), "changes"), "1");

  // Nothing there is an export of nothing.
  const CommandResult none = Export("none.jsonl", {"--from", "latest"});
  ASSERT_EQ(none.exit_code, 0) << none.err;
  EXPECT_EQ(FileText(Path("none.jsonl")), "");
  EXPECT_EQ(Member(FileText(Path("none.jsonl.manifest.json")), "changes"), "0");
}

// proves R25, R26: a run ends with what was there when it began, however much is written meanwhile,
// and what it left is in the next one.
TEST_F(ExportTest, RunsUntilNowUnderAWriterMissAndRepeatNothing) {
  std::atomic<bool> stopping = false;
  std::atomic<int> written = 0;
  std::thread writer([&] {
    auto session = postgres_->Connect();
    while (session.ok() && !stopping) {
      const int id = written + 1;
      EXPECT_TRUE((*session)->Exec(fmt::format("insert into other values ({}, 'x')", id)).ok());
      written = id;
    }
  });
  std::vector<std::string> ids;
  std::string from = "earliest";
  for (int run = 0; run < 3; ++run) {
    const std::string name = fmt::format("run{}.jsonl", run);
    const size_t before = ids.size();
    const int open = written;
    const CommandResult result = Export(name, {"--from", from, "--until", "now"});
    const int end = written;
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const std::string& line : LinesOf(FileText(Path(name)))) {
      const size_t at = line.find("\"id\":") + 5;
      ids.push_back(line.substr(at, line.find(',', at) - at));
    }
    // The backlog when it began; of what came while it ran no more than was there at its end.
    EXPECT_GE(static_cast<int>(ids.size()), open);
    EXPECT_LE(static_cast<int>(ids.size()), end + 1);
    EXPECT_GT(ids.size(), before);
    EXPECT_TRUE(WaitUntil([&] { return written > end; }, seconds(30))) << "the writer went on";
    from = Member(FileText(Path(name + ".manifest.json")), "last_cursor");
  }
  stopping = true;
  writer.join();
  ASSERT_EQ(Export("last.jsonl", {"--from", from, "--until", "now"}).exit_code, 0);
  for (const std::string& line : LinesOf(FileText(Path("last.jsonl")))) {
    const size_t at = line.find("\"id\":") + 5;
    ids.push_back(line.substr(at, line.find(',', at) - at));
  }
  ASSERT_EQ(static_cast<int>(ids.size()), written);
  for (int i = 0; i < written; ++i) ASSERT_EQ(ids[i], std::to_string(i + 1));
}

// proves S23, S38
TEST_F(ExportTest, KilledAgainAndAgainItWritesTheSameFile) {
  WriteMuch();
  ASSERT_EQ(Export("whole.jsonl").exit_code, 0);
  const std::string bound = Member(FileText(Path("whole.jsonl.manifest.json")), "bound");
  // What comes behind the bound belongs to neither.
  const std::vector<std::string> arguments = Arguments("killed.jsonl", {"--until", bound});
  Sql("insert into other select j, 'late' from generate_series(900001, 901000) j");
  int kills = 0;
  uint64_t saved = 0;
  for (; kills < 100; ++kills) {
    auto run = tidemark_->Launch(fmt::format("export{}", kills), arguments);
    ASSERT_TRUE(run.ok()) << run.status();
    bool ended = false;
    ASSERT_TRUE(WaitUntil(
        [&] {
          ended = !(*run)->IsRunning();
          const std::string state = FileText(Path("killed.jsonl.part.state"));
          return ended || std::strtoull(Member(state, "bytes").c_str(), nullptr, 10) > saved;
        },
        seconds(60), [&] { return (*run)->Diagnostics(); }));
    if (ended) {
      EXPECT_EQ((*run)->WaitForExit(seconds(30)).value_or(-1), 0) << (*run)->Diagnostics();
      break;
    }
    EXPECT_FALSE(std::filesystem::exists(Path("killed.jsonl"))) << "it is not whole";
    (*run)->Kill9();
    saved = std::strtoull(Member(FileText(Path("killed.jsonl.part.state")), "bytes").c_str(),
                          nullptr, 10);
    // The server dies, too.
    if (kills % 2 == 1) {
      tidemark_->Kill9();
      ASSERT_TRUE(tidemark_->Start().ok()) << tidemark_->Diagnostics();
    }
  }
  EXPECT_GE(kills, 3);
  EXPECT_EQ(Sha256("killed.jsonl"), Sha256("whole.jsonl"));
  const std::string manifest = FileText(Path("killed.jsonl.manifest.json"));
  const std::string whole = FileText(Path("whole.jsonl.manifest.json"));
  for (const char* name : {"sha256", "bytes", "transactions", "changes", "first_position",
                           "last_position", "public.other"}) {
    EXPECT_EQ(Member(manifest, name), Member(whole, name)) << name;
  }
}

// proves S23: "now" is looked up once, and kept by the export over its own death.
TEST_F(ExportTest, ItsBoundOutlivesIt) {
  WriteMuch();
  auto run = tidemark_->Launch("export", Arguments("now.jsonl", {"--until", "now"}));
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(WaitUntil(
      [&] { return Member(FileText(Path("now.jsonl.part.state")), "bound") != ""; }, seconds(60)));
  (*run)->Kill9();
  Sql("insert into other values (-1, 'later')");
  const CommandResult again = Export("now.jsonl", {"--until", "now"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(FileText(Path("now.jsonl")).find("later"), std::string::npos);
}

// proves S23, S38: until the rows are whole nothing of an export is final, and the rows that begin
// anew are newer than the bound of those before.
TEST_F(ExportTest, KilledInItsRowsUnderAWriterItBeginsThemAnew) {
  constexpr int kBefore = 60'000;
  Sql(
      fmt::format("insert into other select j, repeat(md5(j::text), 30) from "
                  "generate_series(1, {}) j",
                  kBefore));
  std::string inserted;
  ASSERT_TRUE(WaitUntil(
      [&] {
        const v1::FeedStatus feed = Status();
        if (inserted.empty() && feed.log_transactions() > 0) inserted = feed.head().position();
        return !inserted.empty() && feed.folded().position() >= inserted;
      },
      seconds(60), [&] { return Status().DebugString(); }));
  StatementWriter writer(
      *postgres_,
      [](int tried) {
        return fmt::format("insert into other values ({}, 'x')", kBefore + 1 + tried);
      },
      std::chrono::milliseconds(1));
  const std::vector<std::string> options = {"--from", "snapshot", "--until",
                                            "now",    "--tables", "public.other"};
  std::string bound;
  // The rows may be over before a kill comes.
  for (int attempt = 0; attempt < 20 && bound.empty(); ++attempt) {
    for (const char* suffix : {"", ".manifest.json", ".part", ".part.state"}) {
      std::filesystem::remove(Path(std::string("rows.jsonl") + suffix));
    }
    auto run = tidemark_->Launch(fmt::format("rows{}", attempt), Arguments("rows.jsonl", options));
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(WaitUntil(
        [&] {
          const std::string state = FileText(Path("rows.jsonl.part.state"));
          return !(*run)->IsRunning() || Member(state, "bound") != "";
        },
        seconds(60), [&] { return (*run)->Diagnostics(); }));
    (*run)->Kill9();
    const std::string state = FileText(Path("rows.jsonl.part.state"));
    if (Member(state, "cursor").empty()) bound = Member(state, "bound");
  }
  ASSERT_NE(bound, "") << "no kill came between the bound and the end of the rows";
  const auto lsn = ParseLsn(bound);
  ASSERT_TRUE(lsn.ok()) << bound;
  const std::string before = Position::Of(1, *lsn).AfterAllOrdinals().Text();
  ASSERT_TRUE(WaitUntil([&] { return Status().folded().position() > before; }, seconds(60),
                        [&] { return Status().DebugString(); }));

  const int written = writer.done();
  const CommandResult again = Export("rows.jsonl", options);
  writer.Stop();
  ASSERT_EQ(again.exit_code, 0) << again.err;
  std::set<int> ids;
  int lines = 0;
  for (const std::string& line : LinesOf(FileText(Path("rows.jsonl")))) {
    ids.insert(std::atoi(line.substr(line.find("\"id\":") + 5).c_str()));
    ++lines;
  }
  ASSERT_FALSE(ids.empty());
  EXPECT_EQ(static_cast<int>(ids.size()), lines) << "each row is there once";
  EXPECT_EQ(*ids.begin(), 1);
  EXPECT_EQ(*ids.rbegin(), lines) << "and none is missing";
  EXPECT_GE(lines, kBefore + written);
  EXPECT_LE(lines, kBefore + writer.done());

  // A bound that was given stays, and is before rows that are newer.
  const CommandResult given = Export("given.jsonl", {"--from", "snapshot", "--until", bound});
  EXPECT_EQ(given.exit_code, 1);
  EXPECT_THAT(given.err, HasSubstr("BOUND_BEFORE_SNAPSHOT"));
  EXPECT_THAT(given.err, HasSubstr("given.jsonl.part* before another command"));
}

TEST_F(ExportTest, NeverReplacesAFileNorMixesTwoExports) {
  ASSERT_EQ(Export("once.jsonl").exit_code, 0);
  const std::string before = FileText(Path("once.jsonl"));
  const CommandResult twice = Export("once.jsonl");
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.err, HasSubstr("FILE_EXISTS"));
  EXPECT_EQ(FileText(Path("once.jsonl")), before);

  WriteMuch();
  auto run = tidemark_->Launch("running", Arguments("mixed.jsonl", {"--until", "FF/0"}));
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(WaitUntil([&] { return std::filesystem::exists(Path("mixed.jsonl.part")); },
                        seconds(60), [&] { return (*run)->Diagnostics(); }));
  const CommandResult beside = Export("mixed.jsonl", {"--until", "FF/0"});
  EXPECT_THAT(beside.err, HasSubstr("is being written by another export"));
  (*run)->Kill9();
  const CommandResult other = Export("mixed.jsonl", {"--until", "FE/0"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("unfinished export of another command"));

  std::ofstream(Path("foreign.jsonl.part")) << "not ours";
  EXPECT_THAT(Export("foreign.jsonl").err, HasSubstr("FILE_EXISTS"));
  EXPECT_EQ(FileText(Path("foreign.jsonl.part")), "not ours");
}

TEST_F(ExportTest, ADiskWithoutRoomIsNamedAndCostsNothing) {
  WriteMuch();
  ASSERT_EQ(Export("whole.jsonl").exit_code, 0);
  const std::string bound = Member(FileText(Path("whole.jsonl.manifest.json")), "bound");
  ProcessOptions options;
  std::string command = "ulimit -f 20000; exec " + (BuildDir() / "client/tidemark").string();
  for (const std::string& word : Arguments("full.jsonl", {"--until", bound})) command += " " + word;
  options.argv = {"bash", "-c", command};
  options.environment = {{"TIDEMARK_SERVER", tidemark_->address()}};
  options.output_dir = tidemark_->scratch_dir();
  options.name = "full";
  auto full = Process::Start(options);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ((*full)->WaitForExit(seconds(60)).value_or(-1), 1) << (*full)->Diagnostics();
  EXPECT_THAT((*full)->Stderr(), HasSubstr("FILE_IO"));
  EXPECT_THAT((*full)->Stderr(), HasSubstr("make room, and the same command goes on"));
  EXPECT_FALSE(std::filesystem::exists(Path("full.jsonl")));
  const uint64_t saved =
      std::strtoull(Member(FileText(Path("full.jsonl.part.state")), "bytes").c_str(), nullptr, 10);
  EXPECT_GT(saved, 0u);

  ASSERT_EQ(Export("full.jsonl", {"--until", bound}).exit_code, 0);
  EXPECT_EQ(Sha256("full.jsonl"), Sha256("whole.jsonl"));
}

TEST_F(ExportTest, CsvLoadsIntoATableAsItWas) {
  Sql("insert into item values (2, 'comma, \"quote\"' || chr(10) || 'line', 2, '{x,null}', null)");
  Sql("insert into item values (3, '', null, '{}', ''), (4, null, 0, null, '\\x01')");
  const CommandResult done =
      Export("item.csv", {"--from", "snapshot", "--format", "csv", "--tables", "public.item"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::string text = FileText(Path("item.csv"));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "__op,__pos,__seq,__table,__absent,id,name,price,tags,data");
  Sql("create table loaded (op text, pos text, seq int, tab text, absent text, id bigint, name "
      "text, price numeric(10,2), tags text, data text)");
  auto session = postgres_->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status copied =
      (*session)->CopyIn("copy loaded from stdin with (format csv, header true)", text);
  ASSERT_TRUE(copied.ok()) << copied;
  EXPECT_EQ(
      postgres_
          ->QueryValue("select count(*) from item i join loaded l using (id) where i.name is "
                       "not distinct from l.name and i.price is not distinct from l.price and "
                       "encode(i.data, 'base64') is not distinct from l.data and (i.tags is "
                       "null) = (l.tags is null)")
          .value_or("?"),
      "4");

  Sql("delete from item where id = 4");
  const CommandResult changes =
      Export("changes.csv", {"--from", "latest", "--format", "csv", "--tables", "public.item"});
  ASSERT_EQ(changes.exit_code, 0) << changes.err;
  // Two tables do not fit into one file.
  Sql("insert into item values (5, 'x', 1, null, null); insert into other values (1, 'y')");
  const CommandResult mixed = Export("mixed.csv", {"--format", "csv"});
  EXPECT_EQ(mixed.exit_code, 1);
  EXPECT_THAT(mixed.err, HasSubstr("FORMAT_UNSUITABLE"));
}

TEST_F(ExportTest, WhatMakesNoSenseTouchesNothing) {
  EXPECT_EQ(Export("x.jsonl", {"--until", "12:00"}).exit_code, 2);
  EXPECT_EQ(Export("x.jsonl", {"--from", ""}).exit_code, 2);
  EXPECT_EQ(Export("x.jsonl", {"--format", "xml"}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(Path("x.jsonl.part.state")));
  const CommandResult before = Export("y.jsonl", {"--from", "earliest", "--until", "0/1"});
  EXPECT_EQ(before.exit_code, 1);
  EXPECT_THAT(before.err, HasSubstr("BOUND_BEFORE_START"));
  EXPECT_FALSE(std::filesystem::exists(Path("y.jsonl")));
}

}  // namespace
}  // namespace tidemark::testing
