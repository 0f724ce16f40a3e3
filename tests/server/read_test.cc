// The unary calls that read the log: Read, ResolveCursor, InspectCursor, DescribeFeed.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "proto/timestamps.h"
#include "server/limits.h"
#include "tests/server/serving_fixture.h"

namespace tidemark {
namespace {

using testing::At;
using testing::SampleTable;
using testing::SampleTransaction;

class ReadTest : public testing::ServingFixture {
 protected:
  static v1::ReadRequest PageRequest() {
    v1::ReadRequest request;
    request.set_feed("shop");
    return request;
  }
  v1::ReadResponse Read(const v1::ReadRequest& request) {
    grpc::ClientContext context;
    v1::ReadResponse response;
    const grpc::Status status = stub().Read(&context, request, &response);
    EXPECT_TRUE(status.ok()) << ReasonIn(status) << ": " << status.error_message();
    return response;
  }
  std::string ReadRefusal(const v1::ReadRequest& request) {
    grpc::ClientContext context;
    v1::ReadResponse response;
    const grpc::Status status = stub().Read(&context, request, &response);
    return std::to_string(status.error_code()) + " " + ReasonIn(status);
  }
  static std::vector<uint64_t> NumbersOf(const v1::ReadResponse& page) {
    std::vector<uint64_t> numbers;
    for (const auto& transaction : page.transactions()) {
      numbers.push_back(Position::FromText(transaction.position())->engine_low());
    }
    return numbers;
  }
};

TEST_F(ReadTest, PagesThroughTheLogByCursor) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1}), SampleTransaction(102, {2})});
  v1::ReadRequest request = PageRequest();
  request.set_page_bytes_max(1);
  v1::ReadResponse page = Read(request);
  EXPECT_EQ(NumbersOf(page), (std::vector<uint64_t>{101}));
  EXPECT_FALSE(page.caught_up());
  ASSERT_EQ(page.table_schemas_size(), 1);
  EXPECT_EQ(page.table_schemas(0).schema_id(), SampleTable().schema_id());
  request.set_cursor(page.cursor());
  page = Read(request);
  EXPECT_EQ(NumbersOf(page), (std::vector<uint64_t>{102}));
  EXPECT_EQ(page.transactions(0).cursor(), page.cursor());
  request.set_cursor(page.cursor());
  page = Read(request);
  EXPECT_EQ(page.transactions_size(), 0);
  EXPECT_TRUE(page.caught_up());
  EXPECT_EQ(page.cursor(), feed().Cursor(At(102)));
}

// proves R27: a soft cap ends at a commit, and a transaction beyond it goes through.
TEST_F(ReadTest, ACapOfChangesEndsBehindATransaction) {
  std::vector<int64_t> ten(10);
  MakeSnapshot();
  Append({SampleTransaction(101, {1, 2, 3}), SampleTransaction(102, {4}),
          SampleTransaction(103, {5, 6}), SampleTransaction(104, ten),
          SampleTransaction(105, {7})});
  v1::ReadRequest request = PageRequest();
  request.set_changes_max(4);
  std::vector<std::vector<uint64_t>> pages;
  bool caught_up = false;
  while (!caught_up && pages.size() < 9) {
    const v1::ReadResponse page = Read(request);
    pages.push_back(NumbersOf(page));
    caught_up = page.caught_up();
    EXPECT_EQ(page.page_token(), "") << "never inside a transaction";
    request.set_cursor(page.cursor());
  }
  EXPECT_EQ(pages, (std::vector<std::vector<uint64_t>>{{101, 102}, {103, 104}, {105}}));
  // A large one takes pages of its own, and the cap holds from its end on.
  AppendLarge(106, 40, 60'000);
  Append({SampleTransaction(107, {8})});
  request.set_changes_max(1);
  uint64_t parts = 0;
  for (v1::ReadResponse page = Read(request);; page = Read(request)) {
    ++parts;
    EXPECT_EQ(NumbersOf(page), (std::vector<uint64_t>{106}));
    ASSERT_LT(parts, 20u);
    if (page.page_token().empty()) {
      request.clear_page_token();
      request.set_cursor(page.cursor());
      break;
    }
    request.set_page_token(page.page_token());
  }
  EXPECT_GT(parts, 1u);
  EXPECT_EQ(NumbersOf(Read(request)), (std::vector<uint64_t>{107}));
}

TEST_F(ReadTest, ReadsUpToABound) {
  MakeSnapshot();
  for (uint64_t number = 101; number < 106; ++number) Append({SampleTransaction(number, {1})});
  v1::ReadRequest request = PageRequest();
  request.set_cursor(feed().Cursor(At(101)));
  request.set_until_cursor(feed().Cursor(At(103)));
  const v1::ReadResponse page = Read(request);
  EXPECT_EQ(NumbersOf(page), (std::vector<uint64_t>{102, 103}));
  EXPECT_TRUE(page.caught_up());
  EXPECT_EQ(page.cursor(), feed().Cursor(At(103)));
  request.set_until_cursor(feed().Cursor(At(100)));
  EXPECT_EQ(ReadRefusal(request), "3 REQUEST_INVALID");
}

TEST_F(ReadTest, ALargeTransactionComesInPartsByPageToken) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1})});
  AppendLarge(102, 12, 400'000);
  Append({SampleTransaction(103, {2})});
  v1::ReadRequest request = PageRequest();
  std::vector<uint64_t> sequences;
  int pages = 0;
  v1::ReadResponse page;
  do {
    page = Read(request);
    ASSERT_LE(page.ByteSizeLong(), limits::message_bytes_max);
    ASSERT_LT(++pages, 20);
    for (const auto& transaction : page.transactions()) {
      if (transaction.position() != At(102).Text()) continue;
      for (const auto& run : transaction.runs()) sequences.push_back(run.first_sequence());
      EXPECT_EQ(transaction.last(), sequences.size() == 12) << sequences.size();
      EXPECT_EQ(transaction.cursor().empty(), !transaction.last());
      EXPECT_EQ(transaction.changes_delivered(), transaction.last() ? 12u : 0u);
    }
    EXPECT_NE(page.cursor().empty(), page.page_token().empty());
    request.set_page_token(page.page_token());
    if (!page.cursor().empty()) request.set_cursor(page.cursor());
  } while (!page.caught_up());
  EXPECT_GT(pages, 3);
  std::vector<uint64_t> wanted;
  for (uint64_t sequence = 0; sequence < 12; ++sequence) wanted.push_back(sequence);
  EXPECT_EQ(sequences, wanted);
  EXPECT_EQ(page.cursor(), feed().Cursor(At(103)));
}

TEST_F(ReadTest, APageTokenIsNoCursorAndACursorIsNoPageToken) {
  MakeSnapshot();
  AppendLarge(101, 12, 400'000);
  const v1::ReadResponse page = Read(PageRequest());
  ASSERT_FALSE(page.page_token().empty());
  v1::ReadRequest request = PageRequest();
  request.set_cursor(page.page_token());
  EXPECT_EQ(ReadRefusal(request), "3 CURSOR_MALFORMED");
  request.set_cursor("");
  request.set_page_token(feed().Cursor(At(100)));
  EXPECT_EQ(ReadRefusal(request), "3 REQUEST_INVALID");
  // Of another place than the cursor says.
  request.set_page_token(page.page_token());
  request.set_cursor(feed().Cursor(At(101)));
  EXPECT_EQ(ReadRefusal(request), "3 REQUEST_INVALID");
}

TEST_F(ReadTest, WaitsForNewsWhenAskedTo) {
  MakeSnapshot();
  v1::ReadRequest request = PageRequest();
  request.set_cursor(feed().Cursor(At(100)));
  *request.mutable_wait() = ToDuration(absl::Milliseconds(50));
  v1::ReadResponse page = Read(request);
  EXPECT_EQ(page.transactions_size(), 0);
  EXPECT_TRUE(page.caught_up());
  *request.mutable_wait() = ToDuration(absl::Seconds(60));
  std::thread reader([&] { page = Read(request); });
  Append({SampleTransaction(101, {1})});
  reader.join();
  EXPECT_EQ(NumbersOf(page), (std::vector<uint64_t>{101}));
  *request.mutable_wait() = ToDuration(absl::Seconds(61));
  EXPECT_EQ(ReadRefusal(request), "3 REQUEST_INVALID");
}

TEST_F(ReadTest, TheCursorPassesWhatTheFilterLeavesOut) {
  MakeSnapshot({}, {SampleTable("items")});
  Append({SampleTransaction(101, {1})});
  AppendIdle(120);
  v1::ReadRequest request = PageRequest();
  request.mutable_filter()->add_tables("public.items");
  const v1::ReadResponse page = Read(request);
  EXPECT_EQ(page.transactions_size(), 0);
  EXPECT_EQ(page.cursor(), feed().Cursor(At(120)));
  request.mutable_filter()->set_tables(0, "public.never");
  EXPECT_EQ(ReadRefusal(request), "3 TABLE_UNKNOWN");
}

TEST_F(ReadTest, ResolvesThePointsOfTheLog) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1})});
  const auto resolve = [&](const std::function<void(v1::ResolveCursorRequest*)>& point) {
    grpc::ClientContext context;
    v1::ResolveCursorRequest request;
    request.set_feed("shop");
    point(&request);
    v1::ResolveCursorResponse response;
    const grpc::Status status = stub().ResolveCursor(&context, request, &response);
    if (!status.ok()) return ReasonIn(status);
    EXPECT_EQ(feed().DecodeCursor(response.cursor())->Text(), response.position());
    return response.native_position();
  };
  EXPECT_EQ(resolve([](auto* r) { r->mutable_earliest(); }), "100");
  EXPECT_EQ(resolve([](auto* r) { r->mutable_latest(); }), "101");
  EXPECT_EQ(resolve([](auto* r) { r->mutable_time(); }), reason::kFeatureUnsupported);
  EXPECT_EQ(resolve([](auto* r) { r->set_native_position("7"); }), reason::kFeatureUnsupported);
  EXPECT_EQ(resolve([](auto*) {}), reason::kRequestInvalid);
}

TEST_F(ReadTest, InspectsCursors) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1}), SampleTransaction(102, {1})});
  Fold();
  ASSERT_TRUE(store().Trim({.age = absl::Seconds(1), .bytes = 1}, absl::Now(), {}).ok());
  const auto inspect = [&](uint64_t number) {
    grpc::ClientContext context;
    v1::InspectCursorRequest request;
    request.set_feed("shop");
    request.set_cursor(feed().Cursor(At(number)));
    v1::InspectCursorResponse response;
    const grpc::Status status = stub().InspectCursor(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.position(), At(number).Text());
    EXPECT_EQ(response.native_position(), std::to_string(number));
    EXPECT_EQ(response.generation(), 1u);
    return v1::CursorStatus_Name(response.status());
  };
  EXPECT_EQ(inspect(102), "CURSOR_STATUS_VALID");
  EXPECT_EQ(inspect(100), "CURSOR_STATUS_EXPIRED");
  EXPECT_EQ(inspect(200), "CURSOR_STATUS_AHEAD");
}

TEST_F(ReadTest, DescribesTheFeed) {
  MakeSnapshot({}, {SampleTable("rowless")});
  grpc::ClientContext context;
  v1::DescribeFeedRequest request;
  request.set_feed("shop");
  v1::DescribeFeedResponse response;
  ASSERT_TRUE(stub().DescribeFeed(&context, request, &response).ok());
  EXPECT_EQ(response.engine(), "scripted");
  EXPECT_EQ(response.completeness(), v1::COMPLETENESS_CLASS_LOG_EXACT);
  ASSERT_EQ(response.tables_size(), 2);
  for (const auto& table : response.tables()) {
    const bool rowless = table.table_schema().table_name() == "rowless";
    EXPECT_EQ(table.rows_kept(), !rowless);
    EXPECT_EQ(table.notes_size(), rowless ? 1 : 0);
  }
}

// proves A02, A22, A44
TEST_F(ReadTest, DescribesWhatTheSourceDoesNotPromise) {
  MakeSnapshot({}, {SampleTable("rowless")});
  source().SetNotes({"updates collapse"}, {{"public", "rowless", "deletes are not seen"},
                                           {"other", "orders", "of a table that is not there"}});
  grpc::ClientContext context;
  v1::DescribeFeedRequest request;
  request.set_feed("shop");
  v1::DescribeFeedResponse response;
  ASSERT_TRUE(stub().DescribeFeed(&context, request, &response).ok());
  std::map<std::string, std::vector<std::string>> notes;
  for (const auto& table : response.tables()) {
    notes[table.table_schema().table_name()] = {table.notes().begin(), table.notes().end()};
  }
  EXPECT_EQ(notes["orders"], std::vector<std::string>{"updates collapse"});
  ASSERT_EQ(notes["rowless"].size(), 3u);
  EXPECT_EQ(notes["rowless"][0], "updates collapse");
  EXPECT_EQ(notes["rowless"][1], "deletes are not seen");
}

TEST_F(ReadTest, NamesWhatItCannotDoYet) {
  grpc::ClientContext context;
  v1::GetRowResponse response;
  const grpc::Status status = stub().GetRow(&context, v1::GetRowRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ReasonIn(status), reason::kFeatureUnsupported);
}

// Calls under way when the store catches up with their cursor are answered, not sent away.
TEST_F(ReadTest, ACursorAheadOfTheHeadIsWaitedFor) {
  MakeSnapshot();
  v1::ReadRequest request = PageRequest();
  request.set_cursor(feed().Cursor(At(101)));
  std::vector<std::string> refusals(20);
  std::vector<std::thread> calls;
  for (std::string& refusal : refusals) {
    calls.emplace_back([&] { refusal = ReadRefusal(request); });
  }
  Append({SampleTransaction(101, {1})});
  for (std::thread& call : calls) call.join();
  for (const std::string& refusal : refusals) EXPECT_EQ(refusal.substr(0, 2), "0 ") << refusal;
  request.set_cursor(feed().Cursor(At(1'000)));
  EXPECT_EQ(ReadRefusal(request), "14 CURSOR_AHEAD");
}

}  // namespace
}  // namespace tidemark
