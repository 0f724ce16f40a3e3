#include "capture/postgres/pgoutput_decoder.h"

#include "fmt/format.h"

// The readers below all read a field, or hand its error on. A declaration takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TIDEMARK_READ(variable, expression)               \
  const auto variable##_or = (expression);                \
  if (!variable##_or.ok()) return variable##_or.status(); \
  const auto variable = *variable##_or
// NOLINTEND(bugprone-macro-parentheses)

namespace tidemark::capture::postgres {
namespace {

absl::StatusOr<CommitMessage> ReadCommit(ByteReader& reader) {
  TIDEMARK_READ(flags, reader.ReadUint8());
  if (flags != 0) return reader.Error(fmt::format("has unknown flags {:#04x}", flags));
  TIDEMARK_READ(commit_lsn, reader.ReadUint64());
  TIDEMARK_READ(end_lsn, reader.ReadUint64());
  TIDEMARK_READ(time, reader.ReadUint64());
  return CommitMessage{commit_lsn, end_lsn, UnixMicros(time)};
}

absl::StatusOr<PgoutputMessage> DecodeBegin(ByteReader& reader) {
  TIDEMARK_READ(commit_lsn, reader.ReadUint64());
  TIDEMARK_READ(time, reader.ReadUint64());
  TIDEMARK_READ(xid, reader.ReadUint32());
  return BeginMessage{commit_lsn, UnixMicros(time), xid};
}

absl::StatusOr<PgoutputMessage> DecodeOrigin(ByteReader& reader) {
  TIDEMARK_READ(commit_lsn, reader.ReadUint64());
  TIDEMARK_READ(name, reader.ReadZeroTerminated());
  return OriginMessage{commit_lsn, name};
}

absl::StatusOr<PgoutputMessage> DecodeStreamStart(ByteReader& reader) {
  TIDEMARK_READ(xid, reader.ReadUint32());
  TIDEMARK_READ(first_segment, reader.ReadUint8());
  return StreamStartMessage{xid, first_segment != 0};
}

absl::StatusOr<PgoutputMessage> DecodeStreamCommit(ByteReader& reader) {
  TIDEMARK_READ(xid, reader.ReadUint32());
  TIDEMARK_READ(commit, ReadCommit(reader));
  return StreamCommitMessage{xid, commit};
}

absl::StatusOr<PgoutputMessage> DecodeStreamAbort(ByteReader& reader) {
  TIDEMARK_READ(xid, reader.ReadUint32());
  TIDEMARK_READ(subtransaction_xid, reader.ReadUint32());
  return StreamAbortMessage{xid, subtransaction_xid};
}

// pg_catalog goes over the wire as an empty name.
std::string_view SchemaName(std::string_view name) { return name.empty() ? "pg_catalog" : name; }

absl::Status ReadColumn(ByteReader& reader, TupleColumn* column) {
  TIDEMARK_READ(kind, reader.ReadUint8());
  switch (kind) {
    case 'n':
      *column = {ColumnKind::kNull, {}};
      return absl::OkStatus();
    case 'u':
      *column = {ColumnKind::kUnchanged, {}};
      return absl::OkStatus();
    case 't':
    case 'b': {
      TIDEMARK_READ(length, reader.ReadUint32());
      TIDEMARK_READ(bytes, reader.ReadBytes(length));
      *column = {kind == 't' ? ColumnKind::kText : ColumnKind::kBinary, bytes};
      return absl::OkStatus();
    }
    default:
      return reader.Error(fmt::format("has a column of the unknown kind {:#04x}", kind));
  }
}

absl::Status ReadTuple(ByteReader& reader, std::vector<TupleColumn>* tuple) {
  TIDEMARK_READ(count, reader.ReadUint16());
  tuple->resize(count);
  for (TupleColumn& column : *tuple) {
    if (absl::Status status = ReadColumn(reader, &column); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string_view NameOf(uint8_t type) {
  switch (type) {
    case 'B':
      return "a Begin message";
    case 'C':
      return "a Commit message";
    case 'O':
      return "an Origin message";
    case 'R':
      return "a Relation message";
    case 'Y':
      return "a Type message";
    case 'I':
      return "an Insert message";
    case 'U':
      return "an Update message";
    case 'D':
      return "a Delete message";
    case 'T':
      return "a Truncate message";
    case 'M':
      return "a logical decoding message";
    case 'S':
      return "a Stream Start message";
    case 'E':
      return "a Stream Stop message";
    case 'c':
      return "a Stream Commit message";
    case 'A':
      return "a Stream Abort message";
    default:
      return "a pgoutput message";
  }
}

}  // namespace

PgoutputDecoder PgoutputDecoder::WithinSegment() {
  PgoutputDecoder decoder;
  decoder.place_ = Place::kInSegment;
  return decoder;
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::Decode(std::string_view bytes) {
  const uint8_t type = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  ByteReader reader(bytes, NameOf(type));
  if (const auto first = reader.ReadUint8(); !first.ok()) return first.status();
  absl::StatusOr<PgoutputMessage> message = DecodeBody(type, reader);
  if (!message.ok()) return message;
  if (absl::Status status = reader.ExpectEnd(); !status.ok()) return status;
  if (absl::Status status = Move(type, *message, reader); !status.ok()) return status;
  return message;
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::DecodeBody(uint8_t type, ByteReader& reader) {
  switch (type) {
    case 'I':
      return DecodeInsert(reader);
    case 'U':
      return DecodeUpdate(reader);
    case 'D':
      return DecodeDelete(reader);
    case 'B':
      return DecodeBegin(reader);
    case 'C':
      return ReadCommit(reader);
    case 'O':
      return DecodeOrigin(reader);
    case 'R':
      return DecodeRelation(reader);
    case 'Y':
      return DecodeType(reader);
    case 'T':
      return DecodeTruncate(reader);
    case 'M':
      return DecodeLogicalMessage(reader);
    case 'S':
      return DecodeStreamStart(reader);
    case 'E':
      return StreamStopMessage{};
    case 'c':
      return DecodeStreamCommit(reader);
    case 'A':
      return DecodeStreamAbort(reader);
    default:
      return reader.Error(fmt::format("has the unknown type {:#04x}", type));
  }
}

absl::StatusOr<uint32_t> PgoutputDecoder::ReadSegmentXid(ByteReader& reader) const {
  if (place_ != Place::kInSegment) return 0;
  return reader.ReadUint32();
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::DecodeType(ByteReader& reader) const {
  TIDEMARK_READ(xid, ReadSegmentXid(reader));
  TIDEMARK_READ(oid, reader.ReadUint32());
  TIDEMARK_READ(schema_name, reader.ReadZeroTerminated());
  TIDEMARK_READ(type_name, reader.ReadZeroTerminated());
  return TypeMessage{xid, oid, SchemaName(schema_name), type_name};
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::DecodeRelation(ByteReader& reader) {
  TIDEMARK_READ(xid, ReadSegmentXid(reader));
  TIDEMARK_READ(oid, reader.ReadUint32());
  TIDEMARK_READ(schema_name, reader.ReadZeroTerminated());
  TIDEMARK_READ(table_name, reader.ReadZeroTerminated());
  TIDEMARK_READ(identity, reader.ReadUint8());
  if (std::string_view("dnfi").find(static_cast<char>(identity)) == std::string_view::npos) {
    return reader.Error(fmt::format("has the unknown replica identity {:#04x}", identity));
  }
  TIDEMARK_READ(count, reader.ReadUint16());
  columns_.resize(count);
  for (RelationColumn& column : columns_) {
    TIDEMARK_READ(flags, reader.ReadUint8());
    if ((flags & ~1) != 0) return reader.Error(fmt::format("has column flags {:#04x}", flags));
    TIDEMARK_READ(name, reader.ReadZeroTerminated());
    TIDEMARK_READ(type_oid, reader.ReadUint32());
    TIDEMARK_READ(typmod, reader.ReadUint32());
    column = {flags == 1, name, type_oid, static_cast<int32_t>(typmod)};
  }
  return RelationMessage{
      xid, oid, SchemaName(schema_name), table_name, static_cast<char>(identity), columns_};
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::DecodeInsert(ByteReader& reader) {
  TIDEMARK_READ(xid, ReadSegmentXid(reader));
  TIDEMARK_READ(relation, reader.ReadUint32());
  TIDEMARK_READ(marker, reader.ReadUint8());
  if (marker != 'N') return reader.Error(fmt::format("has {:#04x} for a new row", marker));
  if (absl::Status status = ReadTuple(reader, &new_); !status.ok()) return status;
  return InsertMessage{xid, relation, new_};
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::DecodeUpdate(ByteReader& reader) {
  TIDEMARK_READ(xid, ReadSegmentXid(reader));
  TIDEMARK_READ(relation, reader.ReadUint32());
  TIDEMARK_READ(first_marker, reader.ReadUint8());
  OldTuple old_kind = OldTuple::kNone;
  old_.clear();
  uint8_t marker = first_marker;
  if (marker == 'K' || marker == 'O') {
    old_kind = marker == 'K' ? OldTuple::kKey : OldTuple::kRow;
    if (absl::Status status = ReadTuple(reader, &old_); !status.ok()) return status;
    TIDEMARK_READ(second_marker, reader.ReadUint8());
    marker = second_marker;
  }
  if (marker != 'N') return reader.Error(fmt::format("has {:#04x} for a new row", marker));
  if (absl::Status status = ReadTuple(reader, &new_); !status.ok()) return status;
  return UpdateMessage{xid, relation, old_kind, old_, new_};
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::DecodeDelete(ByteReader& reader) {
  TIDEMARK_READ(xid, ReadSegmentXid(reader));
  TIDEMARK_READ(relation, reader.ReadUint32());
  TIDEMARK_READ(marker, reader.ReadUint8());
  if (marker != 'K' && marker != 'O') {
    return reader.Error(fmt::format("has {:#04x} for an old row", marker));
  }
  if (absl::Status status = ReadTuple(reader, &old_); !status.ok()) return status;
  return DeleteMessage{xid, relation, marker == 'K' ? OldTuple::kKey : OldTuple::kRow, old_};
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::DecodeTruncate(ByteReader& reader) {
  TIDEMARK_READ(xid, ReadSegmentXid(reader));
  TIDEMARK_READ(count, reader.ReadUint32());
  TIDEMARK_READ(flags, reader.ReadUint8());
  if ((flags & ~3) != 0) return reader.Error(fmt::format("has unknown flags {:#04x}", flags));
  // Before the count is believed and room is made for it.
  if (reader.remaining() / sizeof(uint32_t) < count) {
    return reader.Error(fmt::format("announces {} relations", count));
  }
  relations_.resize(count);
  for (uint32_t& relation : relations_) {
    TIDEMARK_READ(oid, reader.ReadUint32());
    relation = oid;
  }
  return TruncateMessage{xid, (flags & 1) != 0, (flags & 2) != 0, relations_};
}

absl::StatusOr<PgoutputMessage> PgoutputDecoder::DecodeLogicalMessage(ByteReader& reader) const {
  TIDEMARK_READ(xid, ReadSegmentXid(reader));
  TIDEMARK_READ(flags, reader.ReadUint8());
  if ((flags & ~1) != 0) return reader.Error(fmt::format("has unknown flags {:#04x}", flags));
  TIDEMARK_READ(lsn, reader.ReadUint64());
  TIDEMARK_READ(prefix, reader.ReadZeroTerminated());
  TIDEMARK_READ(length, reader.ReadUint32());
  TIDEMARK_READ(content, reader.ReadBytes(length));
  return LogicalMessage{xid, flags == 1, lsn, prefix, content};
}

absl::Status PgoutputDecoder::Move(uint8_t type, const PgoutputMessage& message,
                                   const ByteReader& reader) {
  Place needed = Place::kBetween;
  Place next = Place::kBetween;
  switch (type) {
    case 'B':
      next = Place::kInTransaction;
      break;
    case 'S':
      next = Place::kInSegment;
      break;
    case 'C':
      needed = Place::kInTransaction;
      break;
    case 'E':
      needed = Place::kInSegment;
      break;
    case 'c':
    case 'A':
      break;
    default: {
      // Between transactions there is only what belongs to none.
      const auto* logical = std::get_if<LogicalMessage>(&message);
      const bool outside_is_legal = logical != nullptr && !logical->transactional;
      if (place_ == Place::kBetween && !outside_is_legal) {
        return reader.Error("stands outside of any transaction");
      }
      return absl::OkStatus();
    }
  }
  if (place_ != needed) return reader.Error("is out of order");
  place_ = next;
  return absl::OkStatus();
}

}  // namespace tidemark::capture::postgres

#undef TIDEMARK_READ
