// The comparison of current rows with the source: how it is ordered, and where its findings go.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "proto/table_name.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark::capture {

// What a source puts at most before it asks for room again.
inline constexpr size_t kFindingsAtOnceMax = 1'100;

// Where findings go. Thread rule: safe from any thread; no call waits. Whoever makes room, or wants
// no more, nudges the source.
class VerificationSink {
 public:
  virtual ~VerificationSink() = default;

  // False once End was called or nobody listens any more: the verification is to be dropped.
  virtual bool Wanted() const = 0;
  // Whether it takes kFindingsAtOnceMax more.
  virtual bool HasRoom() = 0;
  virtual void Put(v1::VerifyResponse finding) = 0;
  // Nothing follows. OK: every table that was ordered had its last record.
  virtual void End(const absl::Status& status) = 0;
};

struct VerifyOrder {
  // None: all tables of the source.
  std::vector<TablePattern> tables;
  std::shared_ptr<VerificationSink> sink;
};

}  // namespace tidemark::capture
