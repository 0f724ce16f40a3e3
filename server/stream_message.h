// One message of a Subscribe stream, ready to be handed to gRPC: shared bytes stay shared.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tidemark/v1/feed.pb.h"

namespace tidemark {

struct StreamMessage {
  grpc::ByteBuffer bytes;
  // Transactions that it completes.
  uint64_t transactions = 0;
};

// A slice that owns the string; nothing is copied.
grpc::Slice OwnedSlice(std::string bytes);

StreamMessage RecordMessage(const v1::SubscribeResponse& record);
// `batch`: `transactions` fields.
StreamMessage BatchMessage(std::string batch, uint64_t transactions);
// The same from shared pieces.
StreamMessage BatchMessage(std::vector<grpc::Slice> pieces, uint64_t transactions);
// `rows`: a serialized v1::Rows.
StreamMessage RowsMessage(std::string rows);

}  // namespace tidemark
