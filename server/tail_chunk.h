// A few consecutive transactions in the form in which a Batch carries them, encoded once and shared
// by every reader near the head. Immutable once made; safe from any thread then.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proto/position.h"

namespace tidemark {

struct TailChunk {
  struct Entry {
    Position position;
    int64_t commit_time_us = 0;
    // Where the transaction ends in `bytes`; it begins where the one before ends.
    size_t end = 0;
  };
  // One `transactions` field of v1::Batch per entry. Empty with one entry: the transaction is to be
  // read from the store, because it is large, or was published while nobody was near the head.
  grpc::Slice bytes;
  std::vector<Entry> entries;
  // Every schema that the entries use.
  std::vector<uint64_t> schema_ids;

  bool in_store() const { return bytes.size() == 0; }
  size_t begin_of(size_t entry) const { return entry == 0 ? 0 : entries[entry - 1].end; }
  // What the ring counts it as.
  size_t cost_bytes() const { return bytes.size() + entries.size() * sizeof(Entry) + 64; }
};

// Entries [first, last) of a chunk.
struct TailSpan {
  std::shared_ptr<const TailChunk> chunk;
  size_t first = 0;
  size_t last = 0;

  size_t size_bytes() const { return chunk->entries[last - 1].end - chunk->begin_of(first); }
  grpc::Slice bytes() const {
    return chunk->bytes.sub(chunk->begin_of(first), chunk->entries[last - 1].end);
  }
};

}  // namespace tidemark
