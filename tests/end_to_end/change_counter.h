// A subscriber that keeps nothing: counts changes and notes where transactions end, for streams
// that are too large to record. Thread rule: one thread at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark::testing {

class ChangeCounter {
 public:
  ChangeCounter(const std::string& server, const v1::SubscribeRequest& request)
      : stub_(v1::ChangeFeed::NewStub(
            grpc::CreateChannel(server, grpc::InsecureChannelCredentials()))) {
    context_.set_wait_for_ready(true);
    reader_ = stub_->Subscribe(&context_, request);
  }
  ~ChangeCounter() {
    context_.TryCancel();
    reader_->Finish();
  }

  // Reads records until `condition` holds; false when the stream ended before.
  bool ReadUntil(const std::function<bool()>& condition) {
    v1::SubscribeResponse record;
    while (!condition()) {
      if (!reader_->Read(&record)) return false;
      opened_ = opened_ || record.has_opened();
      largest_message_bytes_ = std::max(largest_message_bytes_, record.ByteSizeLong());
      for (const auto& transaction : record.batch().transactions()) Take(transaction);
    }
    return true;
  }

  bool opened() const { return opened_; }
  uint64_t changes() const { return changes_; }
  uint64_t finished() const { return totals_.size(); }
  // Number of changes of each finished transaction.
  const std::vector<uint64_t>& totals() const { return totals_; }
  size_t largest_message_bytes() const { return largest_message_bytes_; }
  // A cursor was seen where no transaction was finished, or a sequence did not rise by one.
  bool broke_a_rule() const { return broke_a_rule_; }

 private:
  void Take(const v1::Transaction& transaction) {
    if (transaction.position() != position_) next_sequence_ = 0;
    position_ = transaction.position();
    for (const auto& run : transaction.runs()) {
      for (const auto& change : run.changes()) {
        broke_a_rule_ = broke_a_rule_ || run.first_sequence() + change.ordinal() != next_sequence_;
        ++next_sequence_;
        ++changes_;
      }
    }
    broke_a_rule_ = broke_a_rule_ || transaction.last() == transaction.cursor().empty();
    if (!transaction.last()) return;
    totals_.push_back(transaction.changes_total());
  }

  const std::unique_ptr<v1::ChangeFeed::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::SubscribeResponse>> reader_;
  bool opened_ = false;
  uint64_t changes_ = 0;
  std::vector<uint64_t> totals_;
  uint64_t next_sequence_ = 0;
  size_t largest_message_bytes_ = 0;
  std::string position_;
  bool broke_a_rule_ = false;
};

}  // namespace tidemark::testing
