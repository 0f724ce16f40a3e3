#include "server/stream_message.h"

#include <utility>

#include "server/transaction_writer.h"

namespace tidemark {
namespace {

StreamMessage FromSlices(const std::vector<grpc::Slice>& slices, uint64_t transactions) {
  return {grpc::ByteBuffer(slices.data(), slices.size()), transactions};
}

}  // namespace

grpc::Slice OwnedSlice(std::string bytes) {
  auto* owned = new std::string(std::move(bytes));
  return grpc::Slice(
      owned->data(), owned->size(), [](void* string) { delete static_cast<std::string*>(string); },
      owned);
}

StreamMessage RecordMessage(const v1::SubscribeResponse& record) {
  return FromSlices({OwnedSlice(record.SerializeAsString())}, 0);
}

StreamMessage BatchMessage(std::string batch, uint64_t transactions) {
  const std::string prefix = RecordPrefix(v1::SubscribeResponse::kBatchFieldNumber, batch.size());
  return FromSlices({grpc::Slice(prefix), OwnedSlice(std::move(batch))}, transactions);
}

StreamMessage BatchMessage(std::vector<grpc::Slice> pieces, uint64_t transactions) {
  size_t bytes = 0;
  for (const grpc::Slice& piece : pieces) bytes += piece.size();
  pieces.insert(pieces.begin(),
                grpc::Slice(RecordPrefix(v1::SubscribeResponse::kBatchFieldNumber, bytes)));
  return FromSlices(pieces, transactions);
}

StreamMessage RowsMessage(std::string rows) {
  const std::string prefix = RecordPrefix(v1::SubscribeResponse::kRowsFieldNumber, rows.size());
  return FromSlices({grpc::Slice(prefix), OwnedSlice(std::move(rows))}, 0);
}

}  // namespace tidemark
