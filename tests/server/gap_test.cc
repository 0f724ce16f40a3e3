// Readers over a gap: told at exactly that place, once, however they come there; and cursors and
// bounds of the generation before it. The test plays capture.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/server/serving_fixture.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using testing::At;
using testing::CheckpointAt;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LiveSubscriber;
using testing::RecordedStream;
using testing::SampleTable;
using testing::SampleTransaction;
using Record = v1::SubscribeResponse;

Position In2(uint64_t number) { return Position::Of(2, number); }

class GapTest : public testing::ServingFixture {
 protected:
  // The feed goes on behind `to`, in generation 2.
  void AppendGap(uint64_t to) {
    store::AppendBatch batch;
    batch.checkpoint = CheckpointAt(to);
    batch.checkpoint->set_position(std::string(In2(to).bytes()));
    v1::GapRecord& gap = batch.gap.emplace();
    gap.set_from(std::string(store().head().bytes()));
    gap.set_to(batch.checkpoint->position());
    gap.set_reason("SLOT_LOST");
    gap.set_detail("as the test wants it");
    Write(std::move(batch));
  }
  void Append2(uint64_t number, const std::vector<int64_t>& ids,
               const v1::TableSchema& table = SampleTable()) {
    store::AppendBatch batch;
    batch.schemas = {SampleTable(), SampleTable("items"), SampleTable("rowless")};
    batch.transactions = {SampleTransaction(number, ids, table)};
    batch.transactions.back().position = In2(number);
    batch.checkpoint = CheckpointAt(number);
    batch.checkpoint->set_position(std::string(In2(number).bytes()));
    Write(std::move(batch));
  }
  // The log up to 120, a gap to 50, and two transactions behind it.
  void MakeLogWithGap() {
    MakeSnapshot({1, 2});
    Append({SampleTransaction(110, {1}), SampleTransaction(120, {2})});
    AppendGap(50);
    Append2(60, {3});
    Append2(130, {4});
  }

  v1::SubscribeRequest From(const Position& boundary) {
    v1::SubscribeRequest request = Request();
    request.mutable_start()->set_cursor(feed().Cursor(boundary));
    return request;
  }
  static v1::SubscribeRequest Earliest() {
    v1::SubscribeRequest request = Request();
    request.mutable_start()->mutable_earliest();
    return request;
  }

  // Transactions as GENERATION:NUMBER, gaps, the end of the rows.
  std::vector<std::string> Seen(const RecordedStream& stream) {
    std::vector<std::string> lines;
    for (const auto& segment : stream.segments()) {
      for (const auto& event : segment.events) {
        const Record& record = event.record;
        if (record.has_gap()) lines.push_back("gap " + GapText(record.gap()));
        if (record.rows().last()) lines.push_back("rows end");
        for (const v1::Transaction& part : record.batch().transactions()) {
          const auto position = *Position::FromText(part.position());
          if (part.last()) {
            lines.push_back(fmt::format("{}:{}", position.generation(), position.engine_low()));
          }
        }
      }
    }
    return lines;
  }
  std::string GapText(const v1::Gap& gap) {
    EXPECT_EQ(gap.reason(), "SLOT_LOST");
    EXPECT_EQ(gap.detail(), "as the test wants it");
    if (gap.from_cursor().empty()) return gap.to_cursor().empty() ? "without cursors" : "half";
    const auto from = feed().DecodeCursor(gap.from_cursor());
    const auto to = feed().DecodeCursor(gap.to_cursor());
    if (!from.ok() || !to.ok()) return "unreadable";
    return fmt::format("{}:{} to {}:{}", from->generation(), from->engine_low(), to->generation(),
                       to->engine_low());
  }
  std::vector<std::string> ReadAll(const v1::SubscribeRequest& request) {
    RecordedStream stream("all");
    LiveSubscriber subscriber(address(), request, &stream);
    subscriber.Connect();
    EXPECT_TRUE(subscriber.ReadUntilLive(kDeadline));
    return Seen(stream);
  }
  // With its end: "FINISHED", or the reason of the error.
  std::vector<std::string> ReadToEnd(const v1::SubscribeRequest& request) {
    RecordedStream stream("to its end");
    LiveSubscriber subscriber(address(), request, &stream);
    subscriber.Connect();
    EXPECT_TRUE(subscriber.ReadToEnd(kDeadline));
    std::vector<std::string> seen = Seen(stream);
    const Record* closing = Last(stream, Record::kClosing);
    seen.push_back(closing == nullptr ? "no closing" : closing->closing().reason());
    return seen;
  }
  // Pages until the head is reached or an error comes.
  std::vector<std::string> ReadPages(v1::ReadRequest request) {
    std::vector<std::string> lines;
    for (int page = 0; page < 20; ++page) {
      grpc::ClientContext context;
      v1::ReadResponse response;
      const grpc::Status status = stub().Read(&context, request, &response);
      if (!status.ok()) {
        lines.push_back(ReasonIn(status));
        return lines;
      }
      for (const v1::Transaction& transaction : response.transactions()) {
        const auto position = *Position::FromText(transaction.position());
        lines.push_back(fmt::format("{}:{}", position.generation(), position.engine_low()));
      }
      if (response.has_gap()) lines.push_back("gap " + GapText(response.gap()));
      if (response.finished()) lines.push_back("finished");
      request.set_cursor(response.cursor());
      const bool is_last = request.has_until() ? response.finished() : response.caught_up();
      if (is_last) return lines;
    }
    lines.push_back("no end");
    return lines;
  }

 private:
  void Write(store::AppendBatch batch) {
    auto prepared = feed().tail().Prepare(batch);
    const auto status = store().Append(batch);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(store().Sync().ok());
    feed().tail().Publish(std::move(prepared), store().head());
  }
};

constexpr char kGap[] = "gap 1:120 to 2:50";

// proves B055, B067, S48: told between the last transaction before it and the first one behind it.
TEST_F(GapTest, ALaggingReaderIsToldWhereItIs) {
  MakeLogWithGap();
  EXPECT_THAT(ReadAll(Earliest()), ElementsAre("1:110", "1:120", kGap, "2:60", "2:130"));
}

TEST_F(GapTest, ResumingOnBothSidesOfIt) {
  MakeLogWithGap();
  EXPECT_THAT(ReadAll(From(At(110))), ElementsAre("1:120", kGap, "2:60", "2:130"));
  EXPECT_THAT(ReadAll(From(At(120))), ElementsAre(kGap, "2:60", "2:130"));
  EXPECT_THAT(ReadAll(From(In2(50))), ElementsAre("2:60", "2:130"));
  EXPECT_THAT(ReadAll(From(In2(60))), ElementsAre("2:130"));
  EXPECT_THAT(ReadAll(From(In2(130))), IsEmpty());
}

TEST_F(GapTest, ALiveReaderIsToldAtOnce) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  RecordedStream stream("live");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  // Before anything stands behind it.
  AppendGap(50);
  ASSERT_TRUE(
      subscriber.ReadUntil([&] { return Last(stream, Record::kGap) != nullptr; }, kDeadline));
  EXPECT_THAT(Seen(stream), ElementsAre("1:110", "gap 1:110 to 2:50"));
  Append2(60, {2});
  ASSERT_TRUE(subscriber.ReadUntil([&] { return stream.finished_transactions() == 2; }, kDeadline));
  // Broken and resumed: not told again.
  subscriber.Connect();
  Append2(70, {3});
  ASSERT_TRUE(subscriber.ReadUntil([&] { return stream.finished_transactions() == 3; }, kDeadline));
  EXPECT_THAT(Seen(stream), ElementsAre("1:110", "gap 1:110 to 2:50", "2:60", "2:70"));
}

TEST_F(GapTest, TheGapAloneMovesTheCursor) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  AppendGap(50);
  RecordedStream stream("idle");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  EXPECT_EQ(*feed().DecodeCursor(stream.resume_cursor()), In2(50));
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  EXPECT_THAT(Seen(stream), ElementsAre("1:110", "gap 1:110 to 2:50"));
}

TEST_F(GapTest, AFilterDoesNotHideIt) {
  MakeLogWithGap();
  v1::SubscribeRequest request = Earliest();
  request.mutable_filter()->add_tables("public.no*");
  EXPECT_THAT(ReadAll(request), ElementsAre(kGap));
}

TEST_F(GapTest, EveryGapIsToldInOrder) {
  MakeSnapshot();
  AppendGap(50);
  Append2(60, {1});
  store::AppendBatch batch;
  batch.checkpoint = CheckpointAt(10);
  batch.checkpoint->set_position(std::string(Position::Of(3, uint64_t{10}).bytes()));
  v1::GapRecord& gap = batch.gap.emplace();
  gap.set_from(std::string(store().head().bytes()));
  gap.set_to(batch.checkpoint->position());
  gap.set_reason("SLOT_LOST");
  gap.set_detail("as the test wants it");
  ASSERT_TRUE(store().Append(batch).ok());
  feed().tail().Publish({}, store().head());
  EXPECT_THAT(ReadAll(Earliest()), ElementsAre("gap 1:100 to 2:50", "2:60", "gap 2:60 to 3:10"));
}

// Rows behind the gap: nothing is missing for who begins with them.
TEST_F(GapTest, ABootstrapBehindItIsNotTold) {
  MakeLogWithGap();
  Fold();
  v1::SubscribeRequest request = Request();
  request.mutable_filter()->add_tables("public.orders");
  EXPECT_THAT(ReadAll(request), ElementsAre("rows end"));
}

TEST_F(GapTest, ABootstrapBeforeItIsTold) {
  MakeSnapshot({1});
  Append({SampleTransaction(110, {1})});
  Fold();
  AppendGap(50);
  Append2(60, {2});
  EXPECT_THAT(ReadAll(Request()), ElementsAre("rows end", "gap 1:110 to 2:50", "2:60"));
}

// Of tables without rows a bootstrap sends the log, and the gap in it: no boundary resumes there.
TEST_F(GapTest, ABootstrapFromTheLogIsTold) {
  MakeSnapshot({1}, {SampleTable("rowless")});
  Append({SampleTransaction(110, {1}, SampleTable("rowless"))});
  AppendGap(50);
  Append2(60, {2}, SampleTable("rowless"));
  Fold();
  EXPECT_THAT(ReadAll(Request()), ElementsAre("1:110", "gap without cursors", "2:60", "rows end"));
}

TEST_F(GapTest, PagesEndAtIt) {
  MakeLogWithGap();
  v1::ReadRequest request;
  request.set_feed("shop");
  EXPECT_THAT(ReadPages(request), ElementsAre("1:110", "1:120", kGap, "2:60", "2:130"));
  request.set_cursor(feed().Cursor(At(120)));
  EXPECT_THAT(ReadPages(request), ElementsAre(kGap, "2:60", "2:130"));
  request.set_cursor(feed().Cursor(In2(50)));
  EXPECT_THAT(ReadPages(request), ElementsAre("2:60", "2:130"));
  request.set_cursor("");
  request.set_until_cursor(feed().Cursor(At(120)));
  EXPECT_THAT(ReadPages(request), ElementsAre("1:110", "1:120"));
  request.set_until_cursor(feed().Cursor(In2(60)));
  EXPECT_THAT(ReadPages(request), ElementsAre("1:110", "1:120", kGap, "2:60"));
}

TEST_F(GapTest, APageThatWaitsIsAnsweredByTheGap) {
  MakeSnapshot();
  v1::ReadRequest request;
  request.set_feed("shop");
  request.set_cursor(feed().Cursor(At(kSnapshotAt)));
  request.mutable_wait()->set_seconds(20);
  grpc::ClientContext context;
  v1::ReadResponse response;
  grpc::CompletionQueue queue;
  grpc::Status status;
  const auto call = stub().AsyncRead(&context, request, &queue);
  call->Finish(&response, &status, nullptr);
  AppendGap(50);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(GapText(response.gap()), "1:100 to 2:50");
  EXPECT_EQ(*feed().DecodeCursor(response.cursor()), In2(50));
  EXPECT_FALSE(response.caught_up());
}

// What a client saw behind the end of the generation is no more (published before it was synced,
// and lost with the power).
TEST_F(GapTest, ACursorBehindTheEndOfItsGenerationDiverged) {  // proves S48, B067
  MakeLogWithGap();
  EXPECT_EQ(Refusal(From(At(121))), "9 CURSOR_DIVERGED");
  EXPECT_EQ(Refusal(From(At(120).WithOrdinal(1))), "9 CURSOR_DIVERGED");
  v1::ReadRequest request;
  request.set_feed("shop");
  request.set_cursor(feed().Cursor(At(500)));
  EXPECT_THAT(ReadPages(request), ElementsAre("CURSOR_DIVERGED"));
  grpc::ClientContext context;
  v1::InspectCursorRequest inspect;
  inspect.set_feed("shop");
  inspect.set_cursor(feed().Cursor(At(121)));
  v1::InspectCursorResponse inspected;
  ASSERT_TRUE(stub().InspectCursor(&context, inspect, &inspected).ok());
  EXPECT_EQ(inspected.status(), v1::CURSOR_STATUS_DIVERGED);
  EXPECT_EQ(inspected.generation(), 1u);
}

// ---- Bounds.

TEST_F(GapTest, ABoundOfAnEarlierGenerationIsProvedByItsEnd) {  // proves S10, S38
  MakeLogWithGap();
  v1::SubscribeRequest request = Earliest();
  request.mutable_until()->set_cursor(feed().Cursor(At(110)));
  EXPECT_THAT(ReadToEnd(request), ElementsAre("1:110", "FINISHED"));
  request.mutable_until()->set_cursor(feed().Cursor(At(120)));
  EXPECT_THAT(ReadToEnd(request), ElementsAre("1:110", "1:120", "FINISHED"));
  request.mutable_until()->set_cursor(feed().Cursor(In2(60)));
  EXPECT_THAT(ReadToEnd(request), ElementsAre("1:110", "1:120", kGap, "2:60", "FINISHED"));
  // A native position is one of the present generation.
  request.mutable_until()->set_native_position("60");
  EXPECT_THAT(ReadToEnd(request), ElementsAre("1:110", "1:120", kGap, "2:60", "FINISHED"));
}

// proves S14, S38: a bound in what was lost is never taken for reached.
TEST_F(GapTest, ABoundInWhatWasLostIsNeverReached) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  v1::SubscribeRequest request = Earliest();
  request.mutable_until()->set_native_position("200");
  RecordedStream stream("bounded");
  LiveSubscriber subscriber(address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  AppendGap(250);
  Append2(260, {2});
  ASSERT_TRUE(subscriber.ReadToEnd(kDeadline));
  EXPECT_THAT(Seen(stream), ElementsAre("1:110"));
  const v1::Closing& closing = Last(stream, Record::kClosing)->closing();
  EXPECT_EQ(closing.reason(), "BOUND_UNREACHABLE");
  EXPECT_THAT(closing.message(), HasSubstr("200"));
  EXPECT_EQ(subscriber.end().error_code(), grpc::StatusCode::DATA_LOSS);
  // The cursor is one that resumes, in front of the gap.
  EXPECT_EQ(*feed().DecodeCursor(closing.cursor()), At(110));
  v1::SubscribeRequest rest = From(At(110));
  rest.mutable_until()->set_native_position("260");
  EXPECT_THAT(ReadToEnd(rest), ElementsAre("gap 1:110 to 2:250", "2:260", "FINISHED"));
}

// Asked for again behind the gap, as a client does after a break: the same text, and no end either.
TEST_F(GapTest, ABoundBeforeTheBeginningOfTheGenerationIsNeverReached) {  // proves S14, S38
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  AppendGap(250);
  Append2(260, {2});
  v1::SubscribeRequest request = Earliest();
  request.mutable_until()->set_native_position("200");
  EXPECT_THAT(ReadToEnd(request), ElementsAre("1:110", "BOUND_UNREACHABLE"));
  v1::ReadRequest pages;
  pages.set_feed("shop");
  pages.mutable_until()->set_native_position("200");
  EXPECT_THAT(ReadPages(pages), ElementsAre("1:110", "BOUND_UNREACHABLE"));
}

TEST_F(GapTest, APageWhoseBoundWasLostSaysSo) {  // proves S14, S38
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  v1::ReadRequest request;
  request.set_feed("shop");
  request.set_cursor(feed().Cursor(At(110)));
  request.mutable_until()->set_native_position("200");
  request.mutable_wait()->set_seconds(20);
  grpc::ClientContext context;
  v1::ReadResponse response;
  grpc::CompletionQueue queue;
  grpc::Status status;
  const auto call = stub().AsyncRead(&context, request, &queue);
  call->Finish(&response, &status, nullptr);
  // Only once the call has its bound: until then, the text is one of the generation to come.
  ASSERT_TRUE(testing::WaitUntil(
      [&] { return feed().bounds().Look(absl::Now(), feed().tail().proved()).prove.has_value(); },
      kDeadline));
  AppendGap(250);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(ReasonIn(status), "BOUND_UNREACHABLE");
}

TEST_F(GapTest, ATimeBehindTheGapEndsBehindIt) {  // proves S38
  MakeLogWithGap();
  v1::SubscribeRequest request = Earliest();
  // Transaction N was committed N seconds after the epoch.
  request.mutable_until()->mutable_time()->set_seconds(125);
  EXPECT_THAT(ReadToEnd(request), ElementsAre("1:110", "1:120", kGap, "2:60", "FINISHED"));
  v1::ReadRequest pages;
  pages.set_feed("shop");
  *pages.mutable_until() = request.until();
  EXPECT_THAT(ReadPages(pages), ElementsAre("1:110", "1:120", kGap, "2:60", "finished"));
}

}  // namespace
}  // namespace tidemark
