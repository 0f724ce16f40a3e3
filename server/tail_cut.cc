#include "server/tail_cut.h"

#include <google/protobuf/io/coded_stream.h>

#include "proto/reason.h"
#include "server/transaction_writer.h"
#include "server/wire_fields.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {
namespace {

absl::Status Damaged() {
  return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kStoreDamaged,
                         "an encoded transaction cannot be read");
}

void AppendVarint(std::string* out, uint64_t value) {
  uint8_t bytes[10];
  const uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, bytes);
  out->append(reinterpret_cast<const char*>(bytes), end - bytes);
}

// A run without changes holds pieces of a value of the change before it.
bool HoldsPieces(std::string_view run) {
  WireFields fields(run);
  WireField field;
  while (fields.Next(&field)) {
    if (field.number == v1::Run::kChangesFieldNumber) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> AppendCutTransaction(std::string_view transaction, RunFilter& filter,
                                          std::string* out) {
  WireFields outer(transaction);
  WireField entry;
  if (!outer.Next(&entry) || entry.wire_type != 2) return Damaged();
  std::string body;
  uint64_t delivered = 0;
  bool any = false;
  WireFields fields(entry.bytes);
  WireField field;
  while (fields.Next(&field)) {
    if (field.number == v1::Transaction::kChangesDeliveredFieldNumber) continue;
    if (field.number != v1::Transaction::kRunsFieldNumber) {
      body.append(field.whole);
      continue;
    }
    auto cut = filter.Cut(field.bytes, HoldsPieces(field.bytes) ? 1 : 0);
    if (!cut.ok()) return cut.status();
    if (cut->empty()) continue;
    any = true;
    delivered += cut->changes;
    // first_sequence is part of these bytes already.
    AppendRunField(&body, cut->bytes, 0);
  }
  if (!fields.ok()) return Damaged();
  if (!any) return false;
  AppendVarint(&body, v1::Transaction::kChangesDeliveredFieldNumber << 3);
  AppendVarint(&body, delivered);
  AppendVarint(out, v1::Batch::kTransactionsFieldNumber << 3 | 2);
  AppendVarint(out, body.size());
  out->append(body);
  return true;
}

}  // namespace tidemark
