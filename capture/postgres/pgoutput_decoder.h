// Decodes the messages of PostgreSQL's pgoutput plugin, protocol versions 1 and 2. Integers are
// big-endian, strings end in a zero byte, times count microseconds from 2000-01-01. [xid] is an
// int32 that is there only between Stream Start and Stream Stop.
//
//   'B' Begin          int64 commit lsn | int64 time | int32 xid
//   'C' Commit         int8 flags | int64 commit lsn | int64 end lsn | int64 time
//   'O' Origin         int64 commit lsn | string name
//   'R' Relation       [xid] int32 oid | string schema | string table | int8 replica identity
//                      | int16 n | n * column
//       column         int8 flags (1 key) | string name | int32 type | int32 typmod
//   'Y' Type           [xid] int32 oid | string schema | string name
//   'I' Insert         [xid] int32 oid | 'N' tuple
//   'U' Update         [xid] int32 oid | ('K' tuple | 'O' tuple)? | 'N' tuple
//   'D' Delete         [xid] int32 oid | ('K' tuple | 'O' tuple)
//   'T' Truncate       [xid] int32 n | int8 flags (1 cascade, 2 restart identity) | n * int32 oid
//   'M' Message        [xid] int8 flags (1 transactional) | int64 lsn | string prefix
//                      | int32 n | n bytes
//   'S' Stream Start   int32 xid | int8 first segment
//   'E' Stream Stop
//   'c' Stream Commit  int32 xid | int8 flags | int64 commit lsn | int64 end lsn | int64 time
//   'A' Stream Abort   int32 xid | int32 subtransaction xid
//       tuple          int16 n | n * ('n' NULL | 'u' unchanged TOAST
//                                     | 't' int32 n, n bytes of text | 'b' int32 n, n bytes)
//
// Legal order; anything else is an error, and so is a type or a flag that is not known:
//
//   stream       (transaction | segment | Stream Commit | Stream Abort | Message)*
//                where the Message is not transactional
//   transaction  Begin item* Commit
//   segment      Stream Start item* Stream Stop
//   item         Origin | Relation | Type | Insert | Update | Delete | Truncate | Message
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/postgres/byte_reader.h"
#include "capture/postgres/lsn.h"

namespace tidemark::capture::postgres {

enum class ColumnKind : uint8_t { kNull, kUnchanged, kText, kBinary };

struct TupleColumn {
  ColumnKind kind = ColumnKind::kNull;
  std::string_view bytes;
};
using Tuple = std::span<const TupleColumn>;

// What an update or delete says of the old row.
enum class OldTuple : uint8_t {
  kNone,
  // Only the columns of the replica identity are meant; the others read NULL and are absent.
  kKey,
  // The whole row (replica identity full).
  kRow,
};

struct BeginMessage {
  // Start of the commit record; the position of the transaction is the END, see CommitMessage.
  Lsn commit_lsn = 0;
  int64_t commit_time_us = 0;  // Unix epoch
  uint32_t xid = 0;
};
struct CommitMessage {
  Lsn commit_lsn = 0;
  Lsn end_lsn = 0;
  int64_t commit_time_us = 0;  // Unix epoch
};
struct OriginMessage {
  Lsn commit_lsn = 0;
  std::string_view name;
};
struct RelationColumn {
  // Part of the replica identity; set for every column under replica identity full.
  bool in_identity = false;
  std::string_view name;
  uint32_t type_oid = 0;
  int32_t typmod = -1;
};
struct RelationMessage {
  uint32_t xid = 0;  // here and below: 0 outside a streamed segment
  uint32_t oid = 0;
  std::string_view schema_name;
  std::string_view table_name;
  char replica_identity = 'd';  // d default, n nothing, f full, i index
  std::span<const RelationColumn> columns;
};
struct TypeMessage {
  uint32_t xid = 0;
  uint32_t oid = 0;
  std::string_view schema_name;
  std::string_view type_name;
};
struct InsertMessage {
  uint32_t xid = 0;
  uint32_t relation = 0;
  Tuple row;
};
struct UpdateMessage {
  uint32_t xid = 0;
  uint32_t relation = 0;
  OldTuple old_kind = OldTuple::kNone;
  Tuple old_row;
  Tuple row;
};
struct DeleteMessage {
  uint32_t xid = 0;
  uint32_t relation = 0;
  OldTuple old_kind = OldTuple::kKey;
  Tuple old_row;
};
struct TruncateMessage {
  uint32_t xid = 0;
  bool cascade = false;
  bool restart_identity = false;
  std::span<const uint32_t> relations;
};
struct LogicalMessage {
  uint32_t xid = 0;
  bool transactional = false;
  Lsn lsn = 0;
  std::string_view prefix;
  std::string_view content;
};
struct StreamStartMessage {
  uint32_t xid = 0;
  bool first_segment = false;
};
struct StreamStopMessage {};
struct StreamCommitMessage {
  uint32_t xid = 0;
  CommitMessage commit;
};
struct StreamAbortMessage {
  uint32_t xid = 0;
  // Equal to xid when the whole transaction is aborted.
  uint32_t subtransaction_xid = 0;
};

using PgoutputMessage =
    std::variant<BeginMessage, CommitMessage, OriginMessage, RelationMessage, TypeMessage,
                 InsertMessage, UpdateMessage, DeleteMessage, TruncateMessage, LogicalMessage,
                 StreamStartMessage, StreamStopMessage, StreamCommitMessage, StreamAbortMessage>;

// One per replication connection, since it follows the order of the messages. Views and spans in a
// message point into `bytes` or the decoder, and are valid until the next Decode. Errors are
// SOURCE_PROTOCOL with the type of the message and the offset; afterwards the connection is to be
// given up. Thread rule: one thread at a time.
class PgoutputDecoder {
 public:
  // For the items of a segment alone.
  static PgoutputDecoder WithinSegment();

  absl::StatusOr<PgoutputMessage> Decode(std::string_view bytes);

 private:
  enum class Place : uint8_t { kBetween, kInTransaction, kInSegment };

  absl::StatusOr<PgoutputMessage> DecodeBody(uint8_t type, ByteReader& reader);
  absl::StatusOr<PgoutputMessage> DecodeRelation(ByteReader& reader);
  absl::StatusOr<PgoutputMessage> DecodeInsert(ByteReader& reader);
  absl::StatusOr<PgoutputMessage> DecodeUpdate(ByteReader& reader);
  absl::StatusOr<PgoutputMessage> DecodeDelete(ByteReader& reader);
  absl::StatusOr<PgoutputMessage> DecodeTruncate(ByteReader& reader);
  absl::StatusOr<PgoutputMessage> DecodeLogicalMessage(ByteReader& reader) const;
  absl::StatusOr<PgoutputMessage> DecodeType(ByteReader& reader) const;
  absl::StatusOr<uint32_t> ReadSegmentXid(ByteReader& reader) const;
  absl::Status Move(uint8_t type, const PgoutputMessage& message, const ByteReader& reader);

  Place place_ = Place::kBetween;
  std::vector<RelationColumn> columns_;
  std::vector<uint32_t> relations_;
  std::vector<TupleColumn> old_;
  std::vector<TupleColumn> new_;
};

}  // namespace tidemark::capture::postgres
