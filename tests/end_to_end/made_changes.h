// Changes that no source made, put into a store behind the back of a server that does not run.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "capture/transaction_builder.h"
#include "capture/value_writer.h"
#include "store/store.h"
#include "tests/testing/live_tidemark.h"

namespace tidemark::testing {

// `make` adds the changes of one transaction to table public.<table> of the feed main; it is given
// the schema's id. REQUIRES: the server is stopped.
inline absl::Status MakeChanges(
    const LiveTidemark& tidemark, const std::string& table,
    const std::function<void(uint64_t schema_id, capture::TransactionBuilder*)>& make) {
  auto store = store::Store::Open({.path = tidemark.store_dir().string()});
  if (!store.ok()) return store.status();
  const auto feed = (*store)->OpenFeed("main", "postgres");
  if (!feed.ok()) return feed.status();
  (*feed)->SetRowsPolicy([](const v1::TableSchema&) { return true; });
  const auto schema = (*feed)->CurrentSchema("public", table);
  if (!schema) return absl::NotFoundError(table);
  capture::TransactionBuilder builder;
  builder.Begin();
  make(schema->schema_id(), &builder);
  const Position head = (*feed)->head();
  const Position position = head.WithOrdinal(head.ordinal() + 1);
  store::AppendBatch batch;
  v1::CommitRecord record;
  record.set_origin(v1::ORIGIN_RESYNC);
  record.set_commit_time_us(1);
  batch.transactions.push_back(builder.Finish(position, std::move(record)));
  batch.checkpoint = (*feed)->checkpoint();
  batch.checkpoint->set_position(std::string(position.bytes()));
  if (absl::Status status = (*feed)->Append(batch); !status.ok()) return status;
  return (*feed)->Sync();
}

// The image of a row of integers and texts.
inline std::string IntegerImage(capture::ValueTag tag, int64_t number) {
  std::string image;
  capture::AppendInteger(tag, number, &image);
  return image;
}
inline std::string TextImage(const std::string& text) {
  std::string image;
  capture::AppendText(capture::ValueTag::kAfter, text, &image);
  return image;
}
inline std::string AbsentImage() {
  std::string image;
  capture::AppendAbsent(capture::ValueTag::kAfter, &image);
  return image;
}

}  // namespace tidemark::testing
