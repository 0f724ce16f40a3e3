// Writes the wire bytes of a SubscribeResponse that carries a Batch, around runs as they are
// stored: nothing is parsed, and a run is copied once. Pure; safe from any thread.
//
// A message is RecordPrefix(batch, n) followed by n bytes of `transactions` fields. A stored run
// lacks only first_sequence, which is appended: fields of one message may stand in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/encoded_transaction.h"
#include "proto/position.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark {

// What the last part of a transaction says of the whole.
struct TransactionEnd {
  // Empty: this boundary is not to be resumed from.
  std::string_view cursor;
  uint64_t changes_total = 0;
  uint64_t changes_delivered = 0;
};

// Appends a `runs` field of v1::Transaction. `stored` is a serialized v1::Run without
// first_sequence.
void AppendRunField(std::string* out, std::string_view stored, uint64_t first_sequence);
// The size of what AppendRunField appends.
size_t RunFieldBytes(size_t stored_bytes, uint64_t first_sequence);

// Appends a `transactions` field of v1::Batch: one part of a transaction, the last one with `end`.
// `runs` are `runs` fields.
void AppendTransaction(std::string* out, const Position& position, const v1::CommitRecord& record,
                       std::string_view runs, const std::optional<TransactionEnd>& end);
// A whole transaction as capture built it.
void AppendTransaction(std::string* out, const EncodedTransaction& transaction,
                       std::string_view cursor);

// The bytes before `bytes` bytes of a record in a SubscribeResponse; `field` is the record's number
// there.
std::string RecordPrefix(int field, size_t bytes);

// PostgreSQL's X/Y.
std::string LsnText(uint64_t lsn);

}  // namespace tidemark
