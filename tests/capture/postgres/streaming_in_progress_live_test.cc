// Segments of transactions in progress, frame by frame, as a server might send them. A real server
// only answers for the catalog, in which none of these tables is.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "capture/postgres/streaming.h"
#include "proto/reason.h"
#include "tests/capture/postgres/live_session.h"
#include "tests/capture/postgres/wire_builder.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tidemark::testing::ScratchDir;

constexpr Lsn kStart = 0x100;
constexpr uint32_t kOrders = 900'001;
constexpr uint32_t kLines = 900'002;

using Texts = std::vector<std::string>;

Wire Item(char type, uint32_t xid) {
  Wire wire = Message(type);
  if (xid != 0) wire.Int32(xid);
  return wire;
}

// Columns of type text, of which the first is the key. `xid` 0: outside of a segment.
Wire Announced(uint32_t xid, uint32_t oid, const std::string& name, const Texts& columns) {
  constexpr uint32_t kText = 25;
  Wire wire = Item('R', xid);
  wire.Int32(oid).String("public").String(name).Byte('d').Int16(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    wire.Byte(i == 0 ? 1 : 0).String(columns[i]).Int32(kText).Int32(0xFFFFFFFF);
  }
  return wire;
}

Wire Insert(uint32_t xid, uint32_t oid, const Texts& values) {
  Wire wire = Item('I', xid).Int32(oid).Byte('N').Int16(values.size());
  for (const std::string& value : values) wire.Text(value);
  return wire;
}

Wire Truncate(uint32_t xid, uint32_t oid) { return Item('T', xid).Int32(1).Byte(0).Int32(oid); }

Wire SegmentOf(uint32_t xid, bool first) { return Message('S').Int32(xid).Byte(first ? 1 : 0); }
Wire SegmentEnd() { return Message('E'); }
Wire SegmentsCommit(uint32_t xid, Lsn commit, Lsn end) {
  return Message('c').Int32(xid).Byte(0).Int64(commit).Int64(end).Int64(0);
}
Wire SegmentsAbort(uint32_t xid, uint32_t subtransaction) {
  return Message('A').Int32(xid).Int32(subtransaction);
}

// One stream, and what comes of it.
class Stream {
 public:
  Stream(Connection* catalog, InProgressSpool* spool)
      : streaming_(
            1, kStart, &selection_, [](const v1::TableSchema&) { return GapPolicy(); },
            [catalog] { return absl::StatusOr<Connection*>(catalog); }, spool) {}

  absl::Status Send(std::string_view payload) {
    return streaming_.OnFrame(Message('w').Int64(0).Int64(0).Int64(0).Raw(payload).bytes(),
                              &events_);
  }
  // With what follows of it.
  void Take(std::string_view payload) {
    const absl::Status taken = Send(payload);
    ASSERT_TRUE(taken.ok()) << taken;
    ASSERT_NO_FATAL_FAILURE(Replay());
  }
  void Replay(size_t bytes_max = 1 << 20) {
    while (streaming_.replaying()) {
      const absl::StatusOr<size_t> replayed = streaming_.Replay(bytes_max, &events_);
      ASSERT_TRUE(replayed.ok()) << replayed.status();
    }
  }
  void Keepalive(Lsn end) {
    const absl::Status taken =
        streaming_.OnFrame(Message('k').Int64(end).Int64(0).Byte(0).bytes(), &events_);
    ASSERT_TRUE(taken.ok()) << taken;
  }

  // "200: orders(id=1 a=x) truncate orders" for each transaction, by the end of its commit.
  Texts Transactions() {
    Texts texts;
    std::map<uint64_t, v1::TableSchema> schemas;
    std::map<uint64_t, std::vector<EncodedRun>> parts;
    for (const SourceEvent& event : events_) {
      if (const auto* seen = std::get_if<SchemaSeen>(&event)) {
        schemas[seen->schema.schema_id()] = seen->schema;
      } else if (const auto* read = std::get_if<TransactionRead>(&event)) {
        texts.push_back(Text(read->transaction.position, read->transaction.runs, schemas));
      } else if (const auto* part = std::get_if<LargePart>(&event)) {
        for (const EncodedRun& run : part->runs) parts[part->handle].push_back(run);
      } else if (const auto* committed = std::get_if<LargeCommitted>(&event)) {
        texts.push_back(Text(committed->position, parts[committed->handle], schemas));
      } else if (const auto* aborted = std::get_if<LargeAborted>(&event)) {
        parts.erase(aborted->handle);
        texts.emplace_back("withdrawn");
      }
    }
    return texts;
  }
  // Byte by byte.
  Texts Bytes() const {
    Texts bytes;
    for (const SourceEvent& event : events_) {
      const auto* read = std::get_if<TransactionRead>(&event);
      if (read == nullptr) continue;
      bytes.push_back(read->transaction.position.Text() +
                      read->transaction.record.SerializeAsString());
      for (const EncodedRun& run : read->transaction.runs) {
        bytes.push_back(fmt::format("{}/{} {}", run.first_sequence, run.part, run.bytes));
      }
    }
    return bytes;
  }

  Streaming& streaming() { return streaming_; }
  std::vector<SourceEvent>& events() { return events_; }

 private:
  static std::string Text(const Position& position, const std::vector<EncodedRun>& runs,
                          const std::map<uint64_t, v1::TableSchema>& schemas) {
    std::string text = fmt::format("{:x}:", position.engine_low());
    for (const EncodedRun& encoded : runs) {
      v1::Run run;
      EXPECT_TRUE(run.ParseFromString(encoded.bytes));
      for (const v1::Change& change : run.changes()) {
        const v1::TableSchema& schema = schemas.at(run.schema_ids(change.table()));
        text += change.op() == v1::OP_TRUNCATE ? " truncate " : " ";
        text += schema.table_name();
        for (int i = 0; i < change.after_size(); ++i) {
          text += fmt::format("{}{}={}", i == 0 ? "(" : " ", schema.columns(i).name(),
                              change.after(i).text());
        }
        if (change.after_size() > 0) text += ")";
      }
    }
    return text;
  }

  TableSelection selection_{{*TablePattern::Parse("public.*")}};
  Streaming streaming_;
  std::vector<SourceEvent> events_;
};

class StreamingInProgressLiveTest : public LiveSession {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(LiveSession::SetUp());
    stream_ = std::make_unique<Stream>(sql_.get(), &spool_);
  }

  void Take(std::initializer_list<Wire> messages) {
    for (const Wire& message : messages) ASSERT_NO_FATAL_FAILURE(stream_->Take(message));
  }
  Streaming& streaming() { return stream_->streaming(); }

  ScratchDir folder_;
  InProgressSpool spool_{folder_.path(), "in_progress.shop", {.disk_free_bytes_min = 0}};
  std::unique_ptr<Stream> stream_;
};

// proves S61, R07: two transactions in progress and a small one beside them.
TEST_F(StreamingInProgressLiveTest, WhatCommitsIsToldAsIfItCameThen) {
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"}),
        Insert(10, kOrders, {"1", "first"}), SegmentEnd()});
  Take({SegmentOf(20, true), Announced(20, kOrders, "orders", {"id", "a"}),
        Insert(20, kOrders, {"2", "second"}), SegmentEnd()});
  EXPECT_THAT(stream_->events(), IsEmpty()) << "not even a schema";
  Take({Begin(0x180, 30), Announced(0, kLines, "lines", {"id"}), Insert(0, kLines, {"5"}),
        Commit(0x180, 0x190)});
  Take({SegmentOf(10, false), Announced(10, kLines, "lines", {"id"}), Insert(10, kLines, {"6"}),
        Truncate(10, kOrders), Insert(10, kOrders, {"3", "third"}), SegmentEnd()});
  EXPECT_EQ(spool_.transactions(), 2u);
  EXPECT_EQ(streaming().proved(), 0x190u);
  Take({SegmentsCommit(20, 0x190, 0x1A0), SegmentsCommit(10, 0x1A0, 0x1B0)});
  EXPECT_EQ(streaming().proved(), 0x1B0u);
  EXPECT_EQ(spool_.transactions(), 0u);
  EXPECT_EQ(spool_.committed(), 2u);
  // What was announced holds for those that follow.
  Take({Begin(0x1B0, 40), Insert(0, kLines, {"7"}), Insert(0, kOrders, {"8", "eighth"}),
        Commit(0x1B0, 0x1C0)});
  EXPECT_THAT(stream_->Transactions(),
              ElementsAre("190: lines(id=5)", "1a0: orders(id=2 a=second)",
                          "1b0: orders(id=1 a=first) lines(id=6) truncate orders orders(id=3 "
                          "a=third)",
                          "1c0: lines(id=7) orders(id=8 a=eighth)"));

  Stream plain(sql_.get(), nullptr);
  for (const Wire& message : std::initializer_list<Wire>{
           Begin(0x180, 30), Announced(0, kLines, "lines", {"id"}), Insert(0, kLines, {"5"}),
           Commit(0x180, 0x190), Begin(0x190, 20), Announced(0, kOrders, "orders", {"id", "a"}),
           Insert(0, kOrders, {"2", "second"}), Commit(0x190, 0x1A0), Begin(0x1A0, 10),
           Insert(0, kOrders, {"1", "first"}), Insert(0, kLines, {"6"}), Truncate(0, kOrders),
           Insert(0, kOrders, {"3", "third"}), Commit(0x1A0, 0x1B0), Begin(0x1B0, 40),
           Insert(0, kLines, {"7"}), Insert(0, kOrders, {"8", "eighth"}), Commit(0x1B0, 0x1C0)}) {
    ASSERT_NO_FATAL_FAILURE(plain.Take(message));
  }
  EXPECT_EQ(stream_->Bytes(), plain.Bytes());
}

// proves S61
TEST_F(StreamingInProgressLiveTest, WhatIsRolledBackNeverWas) {
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"}),
        Insert(10, kOrders, {"1", "x"}), Insert(11, kOrders, {"2", "sub"}), SegmentEnd(),
        SegmentsAbort(10, 11)});
  Take({SegmentOf(20, true), Announced(20, kOrders, "orders", {"id", "a"}),
        Insert(20, kOrders, {"9", "never"}), SegmentEnd(), SegmentsAbort(20, 20)});
  Take({SegmentOf(10, false), Insert(10, kOrders, {"3", "y"}), Insert(12, kOrders, {"4", "kept"}),
        Insert(13, kOrders, {"5", "sub"}), SegmentEnd(), SegmentsAbort(10, 13)});
  // Of what was never sent.
  Take({SegmentsAbort(77, 77), SegmentsAbort(77, 78), SegmentsAbort(10, 99)});
  Take({SegmentsCommit(10, 0x190, 0x1A0)});
  EXPECT_THAT(stream_->Transactions(),
              ElementsAre("1a0: orders(id=1 a=x) orders(id=3 a=y) orders(id=4 a=kept)"));
  EXPECT_EQ(spool_.rolled_back(), 1u);
  EXPECT_EQ(spool_.transactions(), 0u);
}

// proves S61, R51: the shape of a table as it was in a savepoint that was rolled back.
TEST_F(StreamingInProgressLiveTest, AShapeThatWasRolledBackIsNoSchemaOfTheFeed) {
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"}),
        Insert(10, kOrders, {"1", "x"}), Announced(11, kOrders, "orders", {"id", "a", "b"}),
        Insert(11, kOrders, {"2", "x", "never"}), SegmentEnd(), SegmentsAbort(10, 11)});
  Take({SegmentOf(10, false), Announced(10, kOrders, "orders", {"id", "a"}),
        Insert(10, kOrders, {"3", "y"}), SegmentEnd(), SegmentsCommit(10, 0x190, 0x1A0)});
  EXPECT_THAT(stream_->Transactions(), ElementsAre("1a0: orders(id=1 a=x) orders(id=3 a=y)"));
  for (const SourceEvent& event : stream_->events()) {
    const auto* seen = std::get_if<SchemaSeen>(&event);
    if (seen == nullptr) continue;
    EXPECT_EQ(seen->schema.columns_size(), 2);
  }
}

// proves S61: it is not announced again for the rest of the transaction, nor behind it.
TEST_F(StreamingInProgressLiveTest, WhatASavepointAnnouncedHoldsWithoutIt) {
  Take({SegmentOf(10, true), Announced(11, kOrders, "orders", {"id", "a"}),
        Insert(11, kOrders, {"1", "never"}), Announced(11, kLines, "lines", {"id"}),
        Insert(11, kLines, {"2"}), SegmentEnd(), SegmentsAbort(10, 11)});
  Take({SegmentOf(10, false), Insert(10, kOrders, {"3", "y"}), SegmentEnd(),
        SegmentsCommit(10, 0x190, 0x1A0)});
  Take({Begin(0x1A0, 40), Insert(0, kLines, {"4"}), Insert(0, kOrders, {"5", "z"}),
        Commit(0x1A0, 0x1B0)});
  EXPECT_THAT(stream_->Transactions(),
              ElementsAre("1a0: orders(id=3 a=y)", "1b0: lines(id=4) orders(id=5 a=z)"));
}

// proves S61: columns that are published changed while the transaction was in progress.
TEST_F(StreamingInProgressLiveTest, WhatWasAnnouncedMeanwhileHoldsAgainBehindIt) {
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"}),
        Insert(10, kOrders, {"1", "x"}), SegmentEnd()});
  Take({Begin(0x180, 30), Announced(0, kOrders, "orders", {"id"}), Insert(0, kOrders, {"2"}),
        Commit(0x180, 0x190)});
  Take({SegmentsCommit(10, 0x190, 0x1A0)});
  Take({Begin(0x1A0, 40), Insert(0, kOrders, {"3"}), Commit(0x1A0, 0x1B0)});
  EXPECT_THAT(stream_->Transactions(),
              ElementsAre("190: orders(id=2)", "1a0: orders(id=1 a=x)", "1b0: orders(id=3)"));
}

// proves K2, S61
TEST_F(StreamingInProgressLiveTest, AKeepaliveProvesNothingWithinASegment) {
  stream_->Keepalive(0x120);
  EXPECT_EQ(streaming().proved(), 0x120u);
  streaming().StopAt(0x150, std::nullopt, &stream_->events());
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"})});
  EXPECT_FALSE(streaming().between_transactions());
  EXPECT_FALSE(streaming().in_transaction()) << "nothing of the feed is half told";
  stream_->Keepalive(0x180);
  EXPECT_EQ(streaming().proved(), 0x120u);
  EXPECT_EQ(streaming().heard(), 0x180u);
  EXPECT_FALSE(streaming().finished().has_value());
  Take({Insert(10, kOrders, {"1", "x"}), SegmentEnd()});
  EXPECT_TRUE(streaming().between_transactions());
  // What is in progress commits behind it.
  stream_->Keepalive(0x180);
  EXPECT_EQ(streaming().finished(), 0x150u);
  Take({SegmentsCommit(10, 0x190, 0x1A0)});
  EXPECT_THAT(stream_->Transactions(), IsEmpty());
}

// proves S11, S13, S61
TEST_F(StreamingInProgressLiveTest, ABoundBeforeItsCommitLeavesItOut) {
  streaming().StopAt(0x190, std::nullopt, &stream_->events());
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"}),
        Insert(10, kOrders, {"1", "x"}), SegmentEnd(), SegmentsCommit(10, 0x190, 0x1A0)});
  EXPECT_EQ(streaming().finished(), 0x190u);
  EXPECT_EQ(streaming().proved(), 0x190u);
  EXPECT_FALSE(streaming().replaying());
  EXPECT_THAT(stream_->events(), IsEmpty());
  EXPECT_EQ(spool_.bytes(), 0u);
}

// proves S12, S13, S61: its end lies behind the bound, and that is known at its end.
TEST_F(StreamingInProgressLiveTest, ABoundWithinItsCommitLeavesItOut) {
  streaming().StopAt(0x198, std::nullopt, &stream_->events());
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"}),
        Insert(10, kOrders, {"1", "x"}), SegmentEnd(), SegmentsCommit(10, 0x190, 0x1A0)});
  EXPECT_EQ(streaming().finished(), 0x198u);
  EXPECT_EQ(streaming().proved(), 0x190u) << "from where it is sent again";
  EXPECT_THAT(stream_->Transactions(), IsEmpty());
}

// It is handed over piece by piece, like one that comes at its commit.
TEST_F(StreamingInProgressLiveTest, ALargeOneIsHandedOverInParts) {
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"})});
  const int rows = 3000;
  for (int i = 0; i < rows; ++i) {
    Take({Insert(10, kOrders, {std::to_string(i), std::string(1000, 'x')})});
  }
  Take({SegmentEnd()});
  ASSERT_TRUE(stream_->Send(SegmentsCommit(10, 0x190, 0x1A0)).ok());
  int pieces = 0;
  while (streaming().replaying()) {
    EXPECT_TRUE(streaming().in_transaction());
    EXPECT_EQ(streaming().proved(), kStart);
    const absl::StatusOr<size_t> bytes = streaming().Replay(100'000, &stream_->events());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_LT(*bytes, 102'000u);
    ++pieces;
  }
  EXPECT_GE(pieces, 30);
  EXPECT_FALSE(streaming().in_transaction());
  EXPECT_EQ(streaming().proved(), 0x1A0u);
  ASSERT_EQ(stream_->Transactions().size(), 1u);
  const auto* committed = std::get_if<LargeCommitted>(&stream_->events().back());
  ASSERT_NE(committed, nullptr);
  EXPECT_EQ(committed->record.changes(), uint64_t{rows});
}

// proves S13, S61: ordered while it is handed over.
TEST_F(StreamingInProgressLiveTest, ABoundBeforeItWithdrawsWhatWasHandedOver) {
  Take({SegmentOf(10, true), Announced(10, kOrders, "orders", {"id", "a"})});
  for (int i = 0; i < 3000; ++i) {
    Take({Insert(10, kOrders, {std::to_string(i), std::string(1000, 'x')})});
  }
  Take({SegmentEnd()});
  ASSERT_TRUE(stream_->Send(SegmentsCommit(10, 0x190, 0x1A0)).ok());
  ASSERT_TRUE(streaming().Replay(2 << 20, &stream_->events()).ok());
  ASSERT_TRUE(streaming().replaying());
  streaming().StopAt(0x150, std::nullopt, &stream_->events());
  EXPECT_EQ(streaming().finished(), 0x150u);
  EXPECT_FALSE(streaming().replaying());
  EXPECT_THAT(stream_->Transactions(), ElementsAre("withdrawn"));
  EXPECT_EQ(spool_.bytes(), 0u);
}

TEST_F(StreamingInProgressLiveTest, WhatMakesNoSenseIsRefused) {
  const auto reason = [&](std::initializer_list<Wire> messages) {
    spool_.Clear();
    Stream stream(sql_.get(), &spool_);
    absl::Status status;
    for (const Wire& message : messages) {
      EXPECT_TRUE(status.ok()) << status;
      status = stream.Send(message);
    }
    return ReasonOf(status);
  };
  EXPECT_EQ(reason({SegmentOf(10, false)}), reason::kSourceProtocol);
  EXPECT_EQ(reason({SegmentOf(10, true), SegmentEnd(), SegmentOf(10, true)}),
            reason::kSourceProtocol);
  EXPECT_EQ(reason({SegmentsCommit(10, 0x190, 0x1A0)}), reason::kSourceProtocol);
  Stream plain(sql_.get(), nullptr);
  const absl::Status unasked = plain.Send(SegmentOf(10, true));
  EXPECT_EQ(ReasonOf(unasked), reason::kSourceProtocol);
  EXPECT_THAT(std::string(unasked.message()), HasSubstr("not asked for"));
}

// Its rows are not what the change names, and it is no change of this transaction.
TEST_F(StreamingInProgressLiveTest, APartitionThatASavepointAnnouncedIsNoted) {
  constexpr uint32_t kPart = 900'003;
  Take({SegmentOf(10, true), Announced(11, kOrders, "orders", {"id", "a"}),
        Announced(11, kPart, "orders_1", {"id", "a"}), Insert(11, kOrders, {"1", "never"}),
        SegmentEnd(), SegmentsAbort(10, 11)});
  Take({SegmentOf(10, false), Insert(10, kOrders, {"2", "y"}), SegmentEnd(),
        SegmentsCommit(10, 0x190, 0x1A0)});
  EXPECT_THAT(stream_->Transactions(), ElementsAre("1a0: orders(id=2 a=y)"));
  EXPECT_THAT(streaming().shapes().TakeParts(),
              ElementsAre(std::pair(StreamedShapes::Name("public", "orders"), kPart)));
}

}  // namespace
}  // namespace tidemark::capture::postgres
