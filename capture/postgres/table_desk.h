// Where orders for tables come in and what has become of them is read, beside the thread that
// captures.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "capture/table_order.h"
#include "capture/verification.h"
#include "proto/table_name.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark::capture::postgres {

inline constexpr size_t kTableOrdersMax = 1000;

// Thread rule: safe from any thread.
class TableDesk {
 public:
  // SOURCE_UNREACHABLE while nothing is streamed: an order is kept in memory until it is taken.
  absl::Status Put(TableOrder order);
  std::deque<TableOrder> Take();
  // The tables that the configuration names from now on; kept until they are taken, streaming or
  // not.
  void PutTables(std::vector<TablePattern> tables);
  std::optional<std::vector<TablePattern>> TakeTables();
  // As Put; VERIFICATION_RUNNING while the one before is wanted.
  absl::Status PutVerify(VerifyOrder order);
  std::optional<VerifyOrder> TakeVerify();

  void SetStreaming(bool streaming);
  // `seen`: when the catalog was looked at that they come of.
  void SetStatuses(std::vector<v1::TableStatus> statuses, absl::Time seen);
  // How a look at the catalog failed, which is tried again; OK: it was a good one.
  void SetLookFailure(absl::Status failure, absl::Time now);
  // A failure of the looks becomes last_error where there is none.
  void Fill(v1::FeedStatus* status) const;

 private:
  mutable std::mutex mutex_;
  std::deque<TableOrder> orders_;
  std::optional<std::vector<TablePattern>> tables_;
  std::vector<v1::TableStatus> statuses_;
  absl::Time seen_ = absl::InfinitePast();
  absl::Status look_failure_;
  absl::Time look_failed_ = absl::InfinitePast();
  uint32_t looks_failed_ = 0;  // since the last good one
  bool streaming_ = false;
  std::optional<VerifyOrder> verify_;
  std::weak_ptr<VerificationSink> verifying_;
};

}  // namespace tidemark::capture::postgres
