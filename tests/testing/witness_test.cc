#include "tests/testing/witness.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/recorded_stream.h"
#include "tests/testing/written_records.h"

namespace tidemark::testing {
namespace {

class WitnessTest : public ::testing::Test {
 protected:
  WitnessTest() { stream_.DoNotCheck(); }

  void Connect(const std::string& table = "") {
    v1::SubscribeRequest request;
    if (!table.empty()) request.mutable_filter()->add_tables(table);
    stream_.Connected(request);
    stream_.Record(OpenedRecord(CursorText(5)));
    stream_.Record(SchemaRecord());
  }
  void Send(const v1::Transaction& transaction) { stream_.Record(BatchRecord({transaction})); }

  // Inserts of Ann, each in a transaction of its own, at these LSNs.
  static Testimony Committed(const std::vector<uint64_t>& lsns) {
    Testimony testimony{{}, {"public.account"}};
    for (const uint64_t lsn : lsns) {
      testimony.transactions.push_back(
          {lsn,
           std::to_string(lsn),
           {{"insert", "public.account", {{"id", std::to_string(lsn)}, {"owner", "Ann"}}}}});
    }
    return testimony;
  }
  std::string Found(const Testimony& testimony, uint64_t upto) const {
    const absl::Status kept =
        CheckWitnessed(stream_, testimony, PositionText(5), PositionText(upto));
    return std::string(kept.message());
  }

  RecordedStream stream_{"violation"};
};

TEST_F(WitnessTest, WhatWasCommittedBetweenTheBoundariesWasSent) {
  Connect();
  Send(InsertTransaction(10, 10));
  Send(InsertTransaction(20, 20));
  EXPECT_EQ(Found(Committed({5, 10, 20, 30}), 25), "");
}

TEST_F(WitnessTest, WhatIsMissingIsFound) {
  Connect();
  Send(InsertTransaction(20, 20));
  EXPECT_NE(Found(Committed({10, 20}), 25).find("at " + PositionText(20)), std::string::npos);
  EXPECT_NE(Found(Committed({20, 24}), 25).find("transaction 1 of 2 is missing"),
            std::string::npos);
}

TEST_F(WitnessTest, WhatWasNeverCommittedIsFound) {
  Connect();
  Send(InsertTransaction(10, 10));
  EXPECT_NE(Found(Committed({}), 25).find("not the source's"), std::string::npos);
}

TEST_F(WitnessTest, WhatDiffersIsFound) {
  Connect();
  Send(InsertTransaction(10, 10, "Bob"));
  EXPECT_NE(Found(Committed({10}), 25).find("Bob"), std::string::npos);
}

TEST_F(WitnessTest, TablesThatWereNotAskedForAreNotMissed) {
  Connect("public.item*");
  EXPECT_EQ(Found(Committed({10}), 25), "");
}

TEST_F(WitnessTest, TableThatWasReadAnewIsLeftToOthers) {
  Connect();
  v1::Transaction made = InsertTransaction(20, 20);
  made.set_position(Position::Of(1, 20, 1).Text());
  Send(made);
  EXPECT_EQ(Found(Committed({10}), 25), "");
}

TEST_F(WitnessTest, BehindABreakNothingIsMissed) {
  Connect();
  Send(InsertTransaction(10, 10));
  const absl::Status kept =
      CheckWitnessed(stream_, Committed({10, 20}), PositionText(5), Position::Of(2, 30).Text());
  EXPECT_TRUE(kept.ok()) << kept;
}

}  // namespace
}  // namespace tidemark::testing
