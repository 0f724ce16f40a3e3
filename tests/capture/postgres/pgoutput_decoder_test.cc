#include "capture/postgres/pgoutput_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/reason.h"
#include "tests/capture/postgres/wire_builder.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Wire Relation(Wire wire) {
  return wire.Int32(16384)
      .String("public")
      .String("t")
      .Byte('d')
      .Int16(2)
      .Byte(1)
      .String("id")
      .Int32(23)
      .Int32(-1)
      .Byte(0)
      .String("v")
      .Int32(1700)
      .Int32(655366);
}

// Decodes in order; the last one is returned.
absl::StatusOr<PgoutputMessage> DecodeAll(PgoutputDecoder* decoder,
                                          const std::vector<Wire>& messages) {
  for (size_t i = 0; i + 1 < messages.size(); ++i) {
    const auto message = decoder->Decode(messages[i]);
    EXPECT_TRUE(message.ok()) << i << ": " << message.status();
  }
  return decoder->Decode(messages.back());
}

TEST(PgoutputDecoder, ReadsATransaction) {
  PgoutputDecoder decoder;
  {
    const auto message = decoder.Decode(Message('B').Int64(0x100).Int64(7).Int32(771));
    const auto& begin = std::get<BeginMessage>(*message);
    EXPECT_EQ(begin.commit_lsn, 0x100u);
    EXPECT_EQ(begin.commit_time_us, kPostgresEpochUnixMicros + 7);
    EXPECT_EQ(begin.xid, 771u);
  }
  {
    const Wire wire = Message('O').Int64(9).String("upstream");
    const auto message = decoder.Decode(wire);
    EXPECT_EQ(std::get<OriginMessage>(*message).name, "upstream");
  }
  {
    const Wire wire = Relation(Message('R'));
    const auto message = decoder.Decode(wire);
    ASSERT_TRUE(message.ok()) << message.status();
    const auto& relation = std::get<RelationMessage>(*message);
    EXPECT_EQ(relation.oid, 16384u);
    EXPECT_EQ(relation.schema_name, "public");
    EXPECT_EQ(relation.table_name, "t");
    EXPECT_EQ(relation.replica_identity, 'd');
    ASSERT_EQ(relation.columns.size(), 2u);
    EXPECT_TRUE(relation.columns[0].in_identity);
    EXPECT_EQ(relation.columns[0].typmod, -1);
    EXPECT_EQ(relation.columns[1].name, "v");
    EXPECT_EQ(relation.columns[1].type_oid, 1700u);
    EXPECT_EQ(relation.columns[1].typmod, 655366);
  }
  {
    const Wire wire = Message('Y').Int32(16390).String("").String("mood");
    const auto message = decoder.Decode(wire);
    EXPECT_EQ(std::get<TypeMessage>(*message).schema_name, "pg_catalog");
    EXPECT_EQ(std::get<TypeMessage>(*message).type_name, "mood");
  }
  {
    const Wire wire =
        Message('I').Int32(16384).Byte('N').Int16(4).Text("1").Null().Text("").Binary("\x01");
    const auto message = decoder.Decode(wire);
    ASSERT_TRUE(message.ok()) << message.status();
    const auto& insert = std::get<InsertMessage>(*message);
    EXPECT_EQ(insert.relation, 16384u);
    EXPECT_EQ(insert.xid, 0u);
    ASSERT_EQ(insert.row.size(), 4u);
    EXPECT_EQ(insert.row[0].bytes, "1");
    EXPECT_EQ(insert.row[1].kind, ColumnKind::kNull);
    EXPECT_EQ(insert.row[2].kind, ColumnKind::kText);
    EXPECT_EQ(insert.row[3].kind, ColumnKind::kBinary);
  }
  {
    const auto message = decoder.Decode(Message('T').Int32(2).Byte(3).Int32(16384).Int32(16400));
    const auto& truncate = std::get<TruncateMessage>(*message);
    EXPECT_TRUE(truncate.cascade);
    EXPECT_TRUE(truncate.restart_identity);
    EXPECT_THAT(truncate.relations, ElementsAre(16384u, 16400u));
  }
  {
    const auto message = decoder.Decode(Commit(0x100, 0x130));
    EXPECT_EQ(std::get<CommitMessage>(*message).commit_lsn, 0x100u);
    EXPECT_EQ(std::get<CommitMessage>(*message).end_lsn, 0x130u);
  }
}

TEST(PgoutputDecoder, ReadsOldRows) {
  PgoutputDecoder decoder;
  ASSERT_TRUE(decoder.Decode(Begin(1, 2)).ok());
  const Wire plain = Message('U').Int32(1).Byte('N').Int16(2).Text("1").Unchanged();
  auto message = decoder.Decode(plain);
  EXPECT_EQ(std::get<UpdateMessage>(*message).old_kind, OldTuple::kNone);
  EXPECT_TRUE(std::get<UpdateMessage>(*message).old_row.empty());
  EXPECT_EQ(std::get<UpdateMessage>(*message).row[1].kind, ColumnKind::kUnchanged);

  const Wire key =
      Message('U').Int32(1).Byte('K').Int16(2).Text("1").Null().Byte('N').Int16(2).Text("2").Null();
  message = decoder.Decode(key);
  EXPECT_EQ(std::get<UpdateMessage>(*message).old_kind, OldTuple::kKey);
  EXPECT_EQ(std::get<UpdateMessage>(*message).old_row[0].bytes, "1");
  EXPECT_EQ(std::get<UpdateMessage>(*message).row[0].bytes, "2");

  const Wire row = Message('D').Int32(1).Byte('O').Int16(1).Text("gone");
  message = decoder.Decode(row);
  EXPECT_EQ(std::get<DeleteMessage>(*message).old_kind, OldTuple::kRow);
  EXPECT_EQ(std::get<DeleteMessage>(*message).old_row[0].bytes, "gone");

  const Wire deleted_key = Message('D').Int32(1).Byte('K').Int16(1).Text("gone");
  message = decoder.Decode(deleted_key);
  EXPECT_EQ(std::get<DeleteMessage>(*message).old_kind, OldTuple::kKey);
}

// E10: a message that belongs to no transaction stands between them.
TEST(PgoutputDecoder, ReadsLogicalMessages) {
  PgoutputDecoder decoder;
  const Wire outside = Message('M').Byte(0).Int64(0x55).String("pre").Int32(3).Raw("a\0b");
  const Wire binary =
      Message('M').Byte(0).Int64(0x55).String("pre").Int32(3).Raw(std::string_view("a\0b", 3));
  EXPECT_FALSE(decoder.Decode(outside).ok()) << "the literal above is one byte long";
  const auto message = decoder.Decode(binary);
  ASSERT_TRUE(message.ok()) << message.status();
  const auto& logical = std::get<LogicalMessage>(*message);
  EXPECT_FALSE(logical.transactional);
  EXPECT_EQ(logical.prefix, "pre");
  EXPECT_EQ(logical.content, std::string_view("a\0b", 3));
  const Wire inside = Message('M').Byte(1).Int64(0x55).String("").Int32(0);
  EXPECT_FALSE(decoder.Decode(inside).ok());
  EXPECT_TRUE(DecodeAll(&decoder, {Begin(1, 1), inside, binary, Commit(1, 2), binary}).ok());
}

// proves B023: one message names every table of a TRUNCATE … CASCADE.
TEST(PgoutputDecoder, ReadsTruncateOfManyTables) {
  PgoutputDecoder decoder;
  ASSERT_TRUE(decoder.Decode(Begin(1, 1)).ok());
  Wire wire = Message('T').Int32(300).Byte(1);
  for (int i = 0; i < 300; ++i) wire.Int32(20000 + i);
  const auto message = decoder.Decode(wire);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(std::get<TruncateMessage>(*message).relations.size(), 300u);
  EXPECT_TRUE(std::get<TruncateMessage>(*message).cascade);
  EXPECT_FALSE(std::get<TruncateMessage>(*message).restart_identity);
  // A count that is not there is refused before room is made for it.
  EXPECT_FALSE(decoder.Decode(Message('T').Int32(UINT32_MAX).Byte(0)).ok());
}

TEST(PgoutputDecoder, ReadsStreamedSegments) {
  PgoutputDecoder decoder;
  const Wire insert = Message('I').Int32(771).Int32(16384).Byte('N').Int16(1).Text("1");
  auto message = DecodeAll(
      &decoder, {Message('S').Int32(770).Byte(1), Relation(Message('R').Int32(770)), insert});
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(std::get<InsertMessage>(*message).xid, 771u);
  EXPECT_EQ(std::get<InsertMessage>(*message).relation, 16384u);
  ASSERT_TRUE(decoder.Decode(Message('E')).ok());
  message = decoder.Decode(Message('A').Int32(770).Int32(771));
  EXPECT_EQ(std::get<StreamAbortMessage>(*message).subtransaction_xid, 771u);
  // A whole transaction may stand between two segments.
  message = DecodeAll(&decoder, {Begin(5, 772), Message('I').Int32(1).Byte('N').Int16(0),
                                 Commit(5, 6), Message('S').Int32(770).Byte(0), Message('E'),
                                 Message('c').Int32(770).Byte(0).Int64(7).Int64(8).Int64(0)});
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(std::get<StreamCommitMessage>(*message).xid, 770u);
  EXPECT_EQ(std::get<StreamCommitMessage>(*message).commit.end_lsn, 8u);
}

TEST(PgoutputDecoder, RefusesWhatIsOutOfOrder) {
  const Wire insert = Message('I').Int32(1).Byte('N').Int16(0);
  const Wire segment = Message('S').Int32(1).Byte(1);
  const Wire stream_commit = Message('c').Int32(1).Byte(0).Int64(1).Int64(2).Int64(0);
  const std::vector<std::vector<Wire>> orders = {
      {insert},
      {Commit(1, 2)},
      {Message('E')},
      {Relation(Message('R'))},
      {Begin(1, 1), Begin(2, 2)},
      {Begin(1, 1), segment},
      {Begin(1, 1), stream_commit},
      {Begin(1, 1), Message('E')},
      {segment, Begin(1, 1)},
      {segment, Commit(1, 2)},
      {segment, segment},
      {segment, stream_commit},
      {Begin(1, 1), Commit(1, 2), insert},
      {Begin(1, 1), Commit(1, 2), Commit(1, 2)},
  };
  for (size_t i = 0; i < orders.size(); ++i) {
    PgoutputDecoder decoder;
    const auto message = DecodeAll(&decoder, orders[i]);
    EXPECT_EQ(ReasonOf(message.status()), reason::kSourceProtocol) << i;
  }
}

TEST(PgoutputDecoder, RefusesWhatItDoesNotKnow) {
  PgoutputDecoder decoder;
  ASSERT_TRUE(decoder.Decode(Begin(1, 1)).ok());
  // Two-phase messages of protocol version 3 among them.
  for (int type = 0; type < 256; ++type) {
    if (std::string_view("BCORYIUDTMSEcA").find(static_cast<char>(type)) !=
        std::string_view::npos) {
      continue;
    }
    const auto message = decoder.Decode(Message(static_cast<char>(type)).Raw(std::string(64, 0)));
    EXPECT_EQ(ReasonOf(message.status()), reason::kSourceProtocol) << type;
    EXPECT_THAT(std::string(message.status().message()), HasSubstr("unknown type"));
  }
  for (const Wire& wire : std::vector<Wire>{
           Message('C').Byte(1).Int64(1).Int64(2).Int64(3),
           Message('T').Int32(1).Byte(4).Int32(1),
           Message('M').Byte(2).Int64(0).String("").Int32(0),
           Message('R').Int32(1).String("s").String("t").Byte('q').Int16(0),
           Message('R')
               .Int32(1)
               .String("s")
               .String("t")
               .Byte('d')
               .Int16(1)
               .Byte(2)
               .String("c")
               .Int32(23)
               .Int32(-1),
           Message('I').Int32(1).Byte('K').Int16(0),
           Message('I').Int32(1).Byte('N').Int16(1).Byte('x'),
           Message('D').Int32(1).Byte('N').Int16(0),
           Message('U').Int32(1).Byte('O').Int16(0).Byte('O').Int16(0),
       }) {
    EXPECT_EQ(ReasonOf(decoder.Decode(wire).status()), reason::kSourceProtocol);
  }
}

TEST(PgoutputDecoder, RefusesEveryCutAndEveryExcess) {
  const std::vector<Wire> inside = {
      Message('O').Int64(9).String("upstream"),
      Relation(Message('R')),
      Message('Y').Int32(16390).String("s").String("mood"),
      Message('I').Int32(1).Byte('N').Int16(3).Text("1").Null().Binary("xy"),
      Message('U')
          .Int32(1)
          .Byte('K')
          .Int16(2)
          .Text("1")
          .Null()
          .Byte('N')
          .Int16(2)
          .Text("2")
          .Unchanged(),
      Message('D').Int32(1).Byte('O').Int16(1).Text("gone"),
      Message('T').Int32(2).Byte(3).Int32(1).Int32(2),
      Message('M').Byte(1).Int64(0x55).String("pre").Int32(3).Raw("abc"),
      Commit(1, 2),
  };
  for (const Wire& wire : inside) {
    const std::string_view whole = wire;
    for (size_t size = 0; size < whole.size(); ++size) {
      PgoutputDecoder decoder;
      ASSERT_TRUE(decoder.Decode(Begin(1, 1)).ok());
      // A heap copy of the exact size, so that a sanitizer sees a read beyond it.
      const std::vector<char> cut(whole.begin(), whole.begin() + size);
      const auto message = decoder.Decode({cut.data(), cut.size()});
      EXPECT_EQ(ReasonOf(message.status()), reason::kSourceProtocol) << whole[0] << size;
    }
    PgoutputDecoder decoder;
    ASSERT_TRUE(decoder.Decode(Begin(1, 1)).ok());
    EXPECT_FALSE(decoder.Decode(wire.bytes() + "x").ok()) << whole[0];
    EXPECT_TRUE(decoder.Decode(whole).ok()) << whole[0];
  }
}

}  // namespace
}  // namespace tidemark::capture::postgres
