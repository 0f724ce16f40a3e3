#include "capture/postgres/byte_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/reason.h"
#include "tests/capture/postgres/wire_builder.h"

namespace tidemark::capture::postgres {
namespace {

TEST(ByteReader, ReadsInOrder) {
  const Wire wire = Wire()
                        .Byte(0xFE)
                        .Int16(0xFEDC)
                        .Int32(0xFEDCBA98)
                        .Int64(0xFEDCBA9876543210)
                        .String("text")
                        .String("")
                        .Raw("rest");
  ByteReader reader(wire, "a test buffer");
  EXPECT_EQ(*reader.ReadUint8(), 0xFE);
  EXPECT_EQ(*reader.ReadUint16(), 0xFEDC);
  EXPECT_EQ(*reader.ReadUint32(), 0xFEDCBA98);
  EXPECT_EQ(*reader.ReadUint64(), 0xFEDCBA9876543210);
  EXPECT_EQ(*reader.ReadZeroTerminated(), "text");
  EXPECT_EQ(*reader.ReadZeroTerminated(), "");
  EXPECT_EQ(reader.remaining(), 4u);
  EXPECT_FALSE(reader.ExpectEnd().ok());
  EXPECT_EQ(*reader.ReadBytes(4), "rest");
  EXPECT_TRUE(reader.ExpectEnd().ok());
  EXPECT_EQ(*reader.ReadBytes(0), "");
}

TEST(ByteReader, FailsLoudlyAtTheEnd) {
  ByteReader reader("ab", "a test buffer");
  EXPECT_FALSE(reader.ReadUint32().ok());
  EXPECT_FALSE(reader.ReadUint64().ok());
  EXPECT_FALSE(reader.ReadBytes(3).ok());
  EXPECT_FALSE(reader.ReadBytes(SIZE_MAX).ok());
  EXPECT_FALSE(reader.ReadZeroTerminated().ok());
  EXPECT_EQ(reader.offset(), 0u) << "a failed read consumes nothing";
  EXPECT_EQ(*reader.ReadUint16(), 0x6162);
  const absl::Status status = reader.ReadUint8().status();
  EXPECT_EQ(ReasonOf(status), reason::kSourceProtocol);
  EXPECT_EQ(DetailsOf(status).at("offset"), "2");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("a test buffer of 2 bytes"));
}

}  // namespace
}  // namespace tidemark::capture::postgres
