// From the records of streams that come and go to one unbroken sequence of handler calls: knows
// what was handed over, where the next stream must begin, and what a stream repeats then. Knows no
// gRPC, thread or clock.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/change_assembler.h"
#include "client/feed_handler.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::client {

class Delivery {
 public:
  // `handler` is lent. `start` and `until` are where the first stream begins and ends.
  Delivery(FeedHandler& handler, v1::Start start, v1::Until until, uint64_t held_bytes_max)
      : handler_(handler),
        start_(std::move(start)),
        asked_until_(std::move(until)),
        until_(asked_until_),
        assembler_(held_bytes_max) {}

  // Where the next stream must begin: strictly behind what was handed over, once there is a cursor.
  v1::Start NextStart() const;
  // Where it must end: where this one ends, once that is known. Rows that begin anew are newer than
  // a bound that was looked up for those before; nothing was final yet, so it is asked anew.
  const v1::Until& NextUntil() const { return cursor_.empty() ? asked_until_ : until_; }
  // Empty before the first.
  const std::string& cursor() const { return cursor_; }

  // A new stream begins; what the one before left incomplete comes again.
  void BeginStream();
  // Hands one record on. Errors: of the handler, as they are; CONTRACT_BROKEN where the stream
  // breaks a guarantee (Ordered, Whole); VALUE_TOO_LARGE.
  absl::Status Take(const v1::SubscribeResponse& record);
  // Something new was handed over since BeginStream.
  bool has_advanced() const { return advanced_; }
  // As the server said on Closing; empty reason when it did not close.
  const v1::Closing& closing() const { return closing_; }

 private:
  absl::Status TakeOpened(const v1::Opened& opened);
  absl::Status TakeBound(const v1::Bound& bound);
  absl::Status BeginBootstrap();
  absl::Status TakeSchema(const v1::TableSchema& schema);
  absl::Status TakeSchemaChange(const v1::SchemaChange& change);
  absl::Status TakeGap(const v1::Gap& gap);
  absl::Status TakeBatch(const v1::Batch& batch);
  absl::Status TakeTransaction(const v1::Transaction& part);
  absl::Status BeginTransaction(const v1::Transaction& part);
  absl::Status TakeChange(const ChangeView& change);
  absl::Status EndTransaction(const v1::Transaction& part);
  absl::Status TakeRows(const v1::Rows& rows);
  absl::Status TakeProgress(const v1::Progress& progress);
  absl::Status TakeClosing(const v1::Closing& closing);
  void Advance(const std::string& cursor);

  FeedHandler& handler_;
  const v1::Start start_;
  const v1::Until asked_until_;
  v1::Until until_;
  std::string bound_position_;
  ChangeAssembler assembler_;

  // What was handed over; survives streams.
  std::string cursor_;
  std::string last_position_;   // of the last finished transaction
  std::string open_position_;   // of the transaction that is handed over in part; else empty
  uint64_t next_sequence_ = 0;  // in it: the changes before were handed over
  // (position, sequence) of the newest change of schema that was handed over.
  std::pair<std::string, uint64_t> schema_change_place_;
  bool handed_over_in_bootstrap_ = false;

  // What this stream is at.
  bool opened_ = false;
  bool in_bootstrap_ = false;
  bool advanced_ = false;
  std::string receiving_position_;  // of the transaction whose last part has not come; else empty
  uint64_t receiving_sequence_ = 0;
  uint64_t received_changes_ = 0;
  v1::Closing closing_;
};

}  // namespace tidemark::client
