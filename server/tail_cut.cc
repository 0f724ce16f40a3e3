#include "server/tail_cut.h"

#include "server/request_error.h"
#include "server/transaction_writer.h"
#include "server/wire_fields.h"
#include "server/wire_writer.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {
namespace {

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
  if (!outer.Next(&entry) || entry.wire_type != 2) return DamagedStore("an encoded transaction");
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
  if (!fields.ok()) return DamagedStore("an encoded transaction");
  if (!any) return false;
  AppendVarintField(&body, v1::Transaction::kChangesDeliveredFieldNumber, delivered);
  AppendLengthField(out, v1::Batch::kTransactionsFieldNumber, body);
  return true;
}

absl::StatusOr<CutTail> CutSpans(const std::vector<TailSpan>& spans, RunFilter& filter) {
  CutTail cut;
  for (const TailSpan& span : spans) {
    const TailChunk& chunk = *span.chunk;
    bool any = false;
    for (const uint64_t id : chunk.schema_ids) {
      auto wanted = filter.WantsSchema(id);
      if (!wanted.ok()) return wanted.status();
      any = any || *wanted;
    }
    if (!any) continue;
    const std::string_view bytes(reinterpret_cast<const char*>(chunk.bytes.begin()),
                                 chunk.bytes.size());
    const uint64_t before = cut.transactions;
    for (size_t entry = span.first; entry < span.last; ++entry) {
      const size_t begin = chunk.begin_of(entry);
      auto kept = AppendCutTransaction(bytes.substr(begin, chunk.entries[entry].end - begin),
                                       filter, &cut.batch);
      if (!kept.ok()) return kept.status();
      if (*kept) ++cut.transactions;
    }
    if (cut.transactions == before) continue;
    cut.schema_ids.insert(cut.schema_ids.end(), chunk.schema_ids.begin(), chunk.schema_ids.end());
  }
  return cut;
}

}  // namespace tidemark
