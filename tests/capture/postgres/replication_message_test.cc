#include "capture/postgres/replication_message.h"

#include <gtest/gtest.h>

#include "proto/reason.h"
#include "tests/capture/postgres/wire_builder.h"

namespace tidemark::capture::postgres {
namespace {

TEST(ReplicationMessage, ReadsData) {
  const Wire frame = Message('w').Int64(0x10).Int64(0x20).Int64(5).Raw("payload");
  const auto message = ParseReplicationMessage(frame);
  ASSERT_TRUE(message.ok()) << message.status();
  const auto& data = std::get<XLogData>(*message);
  EXPECT_EQ(data.start, 0x10u);
  EXPECT_EQ(data.end, 0x20u);
  EXPECT_EQ(data.sent_unix_us, kPostgresEpochUnixMicros + 5);
  EXPECT_EQ(data.payload, "payload");
  // Views the frame.
  EXPECT_EQ(data.payload.data(), frame.bytes().data() + 25);
}

TEST(ReplicationMessage, ReadsKeepalives) {
  for (const bool reply : {false, true}) {
    const auto message =
        ParseReplicationMessage(Message('k').Int64(UINT64_MAX).Int64(0).Byte(reply ? 1 : 0));
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(std::get<Keepalive>(*message).end, UINT64_MAX);
    EXPECT_EQ(std::get<Keepalive>(*message).reply_requested, reply);
  }
}

TEST(ReplicationMessage, RefusesCutAndUnknownFrames) {
  const Wire data = Message('w').Int64(1).Int64(2).Int64(3);
  const Wire keepalive = Message('k').Int64(1).Int64(2).Byte(0);
  for (const Wire& frame : {data, keepalive}) {
    EXPECT_TRUE(ParseReplicationMessage(frame).ok());
    for (size_t size = 0; size < frame.bytes().size(); ++size) {
      const auto cut = ParseReplicationMessage(std::string_view(frame).substr(0, size));
      EXPECT_EQ(ReasonOf(cut.status()), reason::kSourceProtocol) << size;
    }
  }
  EXPECT_FALSE(ParseReplicationMessage(keepalive.bytes() + "x").ok());
  EXPECT_FALSE(ParseReplicationMessage(Message('z')).ok());
}

TEST(ReplicationMessage, WritesStatusUpdates) {
  const std::string frame = EncodeStandbyStatus({.written = 0x0102030405060708,
                                                 .flushed = 2,
                                                 .applied = 3,
                                                 .now_unix_us = kPostgresEpochUnixMicros + 4,
                                                 .reply_requested = true});
  EXPECT_EQ(frame,
            Message('r').Int64(0x0102030405060708).Int64(2).Int64(3).Int64(4).Byte(1).bytes());
  EXPECT_EQ(frame.size(), 34u);
  EXPECT_EQ(EncodeStandbyStatus({}).back(), 0);
}

}  // namespace
}  // namespace tidemark::capture::postgres
