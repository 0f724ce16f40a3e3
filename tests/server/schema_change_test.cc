// Where a schema changes in the log, every stream is told so at that very place.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "proto/schema_id.h"
#include "tests/server/serving_fixture.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::LiveSubscriber;
using testing::RecordedStream;
using testing::SampleRun;
using testing::SampleTable;
using testing::SampleTransaction;

class SchemaChangeTest : public testing::ServingFixture {
 protected:
  // public.orders with other types behind the same two values.
  static v1::TableSchema Altered() {
    v1::TableSchema altered = SampleTable();
    altered.mutable_columns(1)->set_source_type("varchar");
    altered.set_schema_id(0);
    altered.set_schema_id(SchemaId(altered));
    return altered;
  }

  // One transaction with a run of each schema: rows 1, 2 and 3, 4.
  static EncodedTransaction Mixed(uint64_t number) {
    EncodedTransaction mixed = SampleTransaction(number, {1, 2});
    mixed.runs.push_back(SampleRun(2, {3, 4}, v1::OP_INSERT, Altered()));
    mixed.record.set_changes(4);
    mixed.record.add_schema_ids(Altered().schema_id());
    mixed.record.set_bytes(mixed.runs[0].bytes.size() + mixed.runs[1].bytes.size());
    return mixed;
  }

  void AppendAltered(std::vector<EncodedTransaction> transactions) {
    store::AppendBatch batch;
    batch.schemas = {SampleTable(), Altered(), SampleTable("items")};
    batch.transactions = std::move(transactions);
    auto prepared = feed().tail().Prepare(batch);
    ASSERT_TRUE(store().Append(batch).ok());
    feed().tail().Publish(std::move(prepared), store().head());
  }

  // Every record but Opened and Progress, as text.
  static std::vector<std::string> Records(const RecordedStream& stream) {
    std::vector<std::string> lines;
    for (const auto& segment : stream.segments()) {
      for (const auto& event : segment.events) {
        const v1::SubscribeResponse& record = event.record;
        if (record.has_table_schema()) {
          lines.push_back("schema " + record.table_schema().columns(1).source_type());
        } else if (record.has_schema_change()) {
          const v1::SchemaChange& change = record.schema_change();
          lines.push_back(fmt::format("change {}/{} {}",
                                      Position::FromText(change.position())->engine_low(),
                                      change.sequence(), change.after().columns(1).source_type()));
          EXPECT_EQ(change.before_schema_id() == SampleTable().schema_id(),
                    change.after().schema_id() == Altered().schema_id());
        }
        for (const v1::Transaction& part : record.batch().transactions()) {
          std::string line =
              fmt::format("part {}", Position::FromText(part.position())->engine_low());
          for (const v1::Run& run : part.runs()) {
            line += fmt::format(" {}+{}", run.first_sequence(), run.changes_size());
          }
          lines.push_back(line + (part.last() ? " last" : ""));
        }
      }
    }
    return lines;
  }

  v1::SubscribeRequest Earliest() const {
    v1::SubscribeRequest request = Request();
    request.mutable_start()->mutable_earliest();
    return request;
  }
  static ::testing::AssertionResult ReadTransactions(LiveSubscriber& subscriber,
                                                     const RecordedStream& stream, uint64_t count) {
    return subscriber.ReadUntil([&] { return stream.finished_transactions() >= count; }, kDeadline);
  }
};

// proves R33, R51: between two transactions and inside one, read from the store.
TEST_F(SchemaChangeTest, StandsBetweenTheOldSchemaAndTheNew) {
  MakeSnapshot();
  AppendAltered({SampleTransaction(101, {9}), Mixed(102), SampleTransaction(103, {5}, Altered()),
                 SampleTransaction(104, {6}), SampleTransaction(105, {7}, SampleTable("items"))});
  RecordedStream stream("catching up");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 5));
  EXPECT_THAT(
      Records(stream),
      ElementsAre("schema text", "schema varchar", "part 101 0+1 last", "part 102 0+2",
                  "change 102/2 varchar", "part 102 2+2 last", "part 103 0+1 last",
                  "change 104/0 text", "schema text", "part 104 0+1 last", "part 105 0+1 last"));
}

// The same for a stream that follows the head.
TEST_F(SchemaChangeTest, StandsThereForAStreamNearTheHead) {
  MakeSnapshot();
  RecordedStream stream("live");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  AppendAltered({SampleTransaction(101, {9})});
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 1));
  AppendAltered({SampleTransaction(102, {1}), SampleTransaction(103, {2}, Altered())});
  AppendAltered({Mixed(104)});
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 4));
  AppendAltered({SampleTransaction(105, {3}, Altered())});
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 5));
  std::vector<std::string> records = Records(stream);
  std::erase_if(records, [](const std::string& line) { return line.rfind("schema", 0) == 0; });
  EXPECT_THAT(records,
              ElementsAre("part 101 0+1 last", "part 102 0+1 last", "change 103/0 varchar",
                          "part 103 0+1 last", "change 104/0 text", "part 104 0+2",
                          "change 104/2 varchar", "part 104 2+2 last", "part 105 0+1 last"));
}

// Who resumes behind the last commit under the old schema is told as well; who filters the table
// out is not.
TEST_F(SchemaChangeTest, IsToldToWhoeverPassesThePlace) {
  MakeSnapshot();
  AppendAltered({SampleTransaction(101, {9}), SampleTransaction(102, {1}, Altered()),
                 SampleTransaction(103, {7}, SampleTable("items"))});
  for (const uint64_t start : {101, 102}) {
    RecordedStream stream("resumed");
    LiveSubscriber subscriber(address(), RequestFrom(start), &stream);
    subscriber.Connect();
    ASSERT_TRUE(ReadTransactions(subscriber, stream, 103 - start));
    EXPECT_EQ(Last(stream, v1::SubscribeResponse::kSchemaChange) != nullptr, start == 101);
  }
  v1::SubscribeRequest request = Earliest();
  request.mutable_filter()->add_tables("public.items");
  RecordedStream stream("filtered");
  LiveSubscriber subscriber(address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 1));
  EXPECT_THAT(Records(stream), ElementsAre("schema text", "part 103 0+1 last"));
}

}  // namespace
}  // namespace tidemark
