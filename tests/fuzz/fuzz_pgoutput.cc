// Whatever bytes a server sends: an error with a reason, or runs that protobuf reads. The first
// byte chooses: 0 is a stream of messages, each behind its length in two bytes; any other number is
// the text of one value, whose type it names.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "capture/postgres/byte_reader.h"
#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/row_encoder.h"
#include "capture/postgres/value.h"
#include "proto/reason.h"
#include "tidemark/v1/change.pb.h"

namespace {

namespace capture = tidemark::capture;
using namespace tidemark::capture::postgres;  // NOLINT: what is under test

void Require(bool holds) {
  if (!holds) std::abort();
}

void RequireReason(const absl::Status& status) {
  Require(tidemark::ReasonOf(status) == tidemark::reason::kSourceProtocol);
}

constexpr uint32_t kPair = 20001, kPairs = 20002, kNested = 20003;
constexpr uint32_t kTypes[] = {25,  1007, 1009, 1020, kPair, kPairs, kNested, 1001, 1185, 1700,
                               701, 1266, 1186, 3802, 16,    5069,   1082,    1114, 1083, 20};

const TypeCatalog& Catalog() {
  static const TypeCatalog& catalog = *[] {
    auto* types = new TypeCatalog;
    types->Add({.oid = kPair,
                .name = "pair",
                .kind = TypeKind::kComposite,
                .fields = {{"a", 23, -1}, {"b", 25, -1}}});
    types->Add({.oid = kPairs, .name = "_pair", .kind = TypeKind::kArray, .element_oid = kPair});
    types->Add({.oid = kNested,
                .name = "nested",
                .kind = TypeKind::kComposite,
                .fields = {{"pairs", kPairs, -1}, {"texts", 1009, -1}, {"pair", kPair, -1}}});
    return types;
  }();
  return catalog;
}

void CheckText(uint8_t choice, std::string_view text) {
  const uint32_t type = kTypes[choice % std::size(kTypes)];
  std::string out;
  const absl::Status status = EncodeText(type, text, Catalog(), capture::ValueTag::kAfter, &out);
  if (!status.ok()) return RequireReason(status);
  tidemark::v1::Change change;
  Require(change.ParseFromString(out) && change.after_size() == 1);
  Require(change.SerializeAsString() == out);
}

RowShape ShapeOf(const RelationMessage& relation) {
  RowShape shape{.schema_id = relation.oid, .table_name = std::string(relation.table_name)};
  for (const RelationColumn& column : relation.columns) {
    if (column.in_identity) shape.key_columns.push_back(shape.types.size());
    shape.types.push_back(Catalog().Resolve(column.type_oid));
    shape.column_names.emplace_back(column.name);
  }
  return shape;
}

// Adds what a message says of rows to the transaction.
absl::Status Apply(const PgoutputMessage& message, std::map<uint32_t, RowShape>* shapes,
                   RowEncoder* encoder, capture::TransactionBuilder* builder) {
  if (const auto* relation = std::get_if<RelationMessage>(&message)) {
    shapes->insert_or_assign(relation->oid, ShapeOf(*relation));
  } else if (const auto* insert = std::get_if<InsertMessage>(&message)) {
    const auto shape = shapes->find(insert->relation);
    if (shape != shapes->end()) return encoder->AddInsert(shape->second, *insert, builder);
  } else if (const auto* update = std::get_if<UpdateMessage>(&message)) {
    const auto shape = shapes->find(update->relation);
    if (shape != shapes->end()) return encoder->AddUpdate(shape->second, *update, builder);
  } else if (const auto* removal = std::get_if<DeleteMessage>(&message)) {
    const auto shape = shapes->find(removal->relation);
    if (shape != shapes->end()) return encoder->AddDelete(shape->second, *removal, builder);
  }
  return absl::OkStatus();
}

void CheckStream(std::string_view bytes) {
  ByteReader frames(bytes, "the input");
  PgoutputDecoder decoder;
  RowEncoder encoder;
  capture::TransactionBuilder builder;
  std::map<uint32_t, RowShape> shapes;
  builder.Begin();
  while (true) {
    const auto length = frames.ReadUint16();
    if (!length.ok()) break;
    const auto frame = frames.ReadBytes(std::min<size_t>(*length, frames.remaining()));
    const auto message = decoder.Decode(*frame);
    const absl::Status status =
        message.ok() ? Apply(*message, &shapes, &encoder, &builder) : message.status();
    if (!status.ok()) {
      RequireReason(status);
      break;
    }
  }
  const uint64_t changes = builder.changes();
  uint64_t seen = 0;
  for (const tidemark::EncodedRun& run : builder.Finish(tidemark::Position(), {}).runs) {
    tidemark::v1::Run parsed;
    Require(parsed.ParseFromString(run.bytes) && parsed.SerializeAsString() == run.bytes);
    seen += parsed.changes_size();
  }
  Require(seen == changes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 0) {
    CheckStream(rest);
  } else {
    CheckText(data[0], rest);
  }
  return 0;
}
