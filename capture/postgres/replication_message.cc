#include "capture/postgres/replication_message.h"

#include "capture/postgres/byte_reader.h"
#include "fmt/format.h"

namespace tidemark::capture::postgres {
namespace {

absl::StatusOr<ReplicationMessage> ParseXLogData(ByteReader& reader) {
  XLogData data;
  const auto start = reader.ReadUint64();
  if (!start.ok()) return start.status();
  const auto end = reader.ReadUint64();
  if (!end.ok()) return end.status();
  const auto sent = reader.ReadUint64();
  if (!sent.ok()) return sent.status();
  data.start = *start;
  data.end = *end;
  data.sent_unix_us = UnixMicros(*sent);
  data.payload = *reader.ReadBytes(reader.remaining());
  return data;
}

absl::StatusOr<ReplicationMessage> ParseKeepalive(ByteReader& reader) {
  Keepalive keepalive;
  const auto end = reader.ReadUint64();
  if (!end.ok()) return end.status();
  const auto sent = reader.ReadUint64();
  if (!sent.ok()) return sent.status();
  const auto reply = reader.ReadUint8();
  if (!reply.ok()) return reply.status();
  if (absl::Status status = reader.ExpectEnd(); !status.ok()) return status;
  keepalive.end = *end;
  keepalive.sent_unix_us = UnixMicros(*sent);
  keepalive.reply_requested = *reply != 0;
  return keepalive;
}

void AppendBig(uint64_t value, std::string* out) {
  for (int shift = 56; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

}  // namespace

absl::StatusOr<ReplicationMessage> ParseReplicationMessage(std::string_view frame) {
  ByteReader reader(frame, "a replication frame");
  const auto type = reader.ReadUint8();
  if (!type.ok()) return type.status();
  switch (*type) {
    case 'w':
      return ParseXLogData(reader);
    case 'k':
      return ParseKeepalive(reader);
    default:
      return reader.Error(fmt::format("has the unknown type {:#04x}", *type));
  }
}

std::string EncodeStandbyStatus(const StandbyStatus& status) {
  std::string frame = "r";
  AppendBig(status.written, &frame);
  AppendBig(status.flushed, &frame);
  AppendBig(status.applied, &frame);
  AppendBig(static_cast<uint64_t>(status.now_unix_us - kPostgresEpochUnixMicros), &frame);
  frame.push_back(status.reply_requested ? 1 : 0);
  return frame;
}

}  // namespace tidemark::capture::postgres
