#include "client/delivery.h"

#include <fmt/format.h>

namespace tidemark::client {

v1::Start Delivery::NextStart() const {
  if (cursor_.empty()) return start_;
  v1::Start start;
  start.set_cursor(cursor_);
  return start;
}

void Delivery::BeginStream() {
  assembler_.Clear();
  opened_ = false;
  in_bootstrap_ = false;
  advanced_ = false;
  receiving_position_.clear();
  received_changes_ = 0;
  closing_.Clear();
}

absl::Status Delivery::Take(const v1::SubscribeResponse& record) {
  // A kind that this client does not know is passed over, as the contract allows.
  if (!opened_ && !record.has_opened() &&
      record.record_case() != v1::SubscribeResponse::RECORD_NOT_SET) {
    return ContractBroken("the first record is not Opened");
  }
  switch (record.record_case()) {
    case v1::SubscribeResponse::kOpened:
      return TakeOpened(record.opened());
    case v1::SubscribeResponse::kTableSchema:
      return TakeSchema(record.table_schema());
    case v1::SubscribeResponse::kBatch:
      return TakeBatch(record.batch());
    case v1::SubscribeResponse::kRows:
      return TakeRows(record.rows());
    case v1::SubscribeResponse::kProgress:
      return TakeProgress(record.progress());
    case v1::SubscribeResponse::kGap:
      return TakeGap(record.gap());
    case v1::SubscribeResponse::kSchemaChange:
      return TakeSchemaChange(record.schema_change());
    case v1::SubscribeResponse::kClosing:
      return TakeClosing(record.closing());
    case v1::SubscribeResponse::kBound:
      return TakeBound(record.bound());
    case v1::SubscribeResponse::RECORD_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

absl::Status Delivery::TakeBound(const v1::Bound& bound) {
  if (bound.position() == bound_position_) return absl::OkStatus();
  bound_position_ = bound.position();
  // A stream that is opened anew keeps what "now" turned out to be. A time is asked anew: the same
  // time is the same bound, while the position that was found for it may lie behind commits that
  // are later.
  if (asked_until_.has_now()) until_.set_native_position(bound.native_position());
  return handler_.OnBound(bound);
}

absl::Status Delivery::TakeOpened(const v1::Opened& opened) {
  if (opened_) return ContractBroken("Opened came twice on one stream");
  opened_ = true;
  if (absl::Status handled = handler_.OnOpened(opened); !handled.ok()) return handled;
  in_bootstrap_ = opened.rows_follow();
  if (in_bootstrap_) return BeginBootstrap();
  // From here on the start is a fixed boundary, also where it was asked for as "latest".
  if (cursor_.empty()) cursor_ = opened.start_cursor();
  return absl::OkStatus();
}

absl::Status Delivery::BeginBootstrap() {
  const bool again = handed_over_in_bootstrap_;
  bound_position_.clear();
  handed_over_in_bootstrap_ = false;
  last_position_.clear();
  open_position_.clear();
  schema_change_place_ = {};
  return again ? handler_.OnRowsAgain() : absl::OkStatus();
}

absl::Status Delivery::TakeSchema(const v1::TableSchema& schema) {
  if (assembler_.FindSchema(schema.schema_id()) != nullptr) return absl::OkStatus();
  assembler_.AddSchema(schema);
  return handler_.OnSchema(schema);
}

absl::Status Delivery::TakeSchemaChange(const v1::SchemaChange& change) {
  // A stream that broke inside a transaction says it again.
  const std::pair<std::string, uint64_t> place(change.position(), change.sequence());
  if (place <= schema_change_place_) return absl::OkStatus();
  schema_change_place_ = place;
  return handler_.OnSchemaChange(change);
}

absl::Status Delivery::TakeGap(const v1::Gap& gap) {
  if (!receiving_position_.empty()) {
    return ContractBroken(fmt::format("a gap came inside transaction {}", receiving_position_));
  }
  if (absl::Status handled = handler_.OnGap(gap); !handled.ok()) return handled;
  // It is told once: the next stream begins behind it.
  if (!in_bootstrap_ && !gap.to_cursor().empty()) Advance(gap.to_cursor());
  return absl::OkStatus();
}

absl::Status Delivery::TakeBatch(const v1::Batch& batch) {
  for (const v1::Transaction& part : batch.transactions()) {
    if (absl::Status taken = TakeTransaction(part); !taken.ok()) return taken;
  }
  return absl::OkStatus();
}

absl::Status Delivery::TakeTransaction(const v1::Transaction& part) {
  if (absl::Status begun = BeginTransaction(part); !begun.ok()) return begun;
  for (const v1::Run& run : part.runs()) {
    absl::Status taken = assembler_.TakeRun(
        receiving_position_, run, [this](const ChangeView& change) { return TakeChange(change); });
    if (!taken.ok()) return taken;
  }
  return part.last() ? EndTransaction(part) : absl::OkStatus();
}

absl::Status Delivery::BeginTransaction(const v1::Transaction& part) {
  if (!receiving_position_.empty()) {
    if (part.position() == receiving_position_) return absl::OkStatus();
    return ContractBroken(fmt::format("transaction {} begins before the last part of {}",
                                      part.position(), receiving_position_));
  }
  if (part.position() <= last_position_) {
    return ContractBroken(
        fmt::format("transaction {} comes behind {}", part.position(), last_position_));
  }
  receiving_position_ = part.position();
  receiving_sequence_ = 0;
  received_changes_ = 0;
  if (open_position_.empty()) {
    open_position_ = part.position();
    next_sequence_ = 0;
    return handler_.OnTransactionBegin(part);
  }
  // The stream before broke inside this transaction: its changes come again from the first on.
  if (open_position_ == part.position()) return absl::OkStatus();
  return ContractBroken(fmt::format("{} was handed over in part, and {} came in its place",
                                    open_position_, part.position()));
}

absl::Status Delivery::TakeChange(const ChangeView& change) {
  if (received_changes_ > 0 && change.sequence() <= receiving_sequence_) {
    return ContractBroken(fmt::format("change {}/{} comes behind change {}", change.position(),
                                      change.sequence(), receiving_sequence_));
  }
  receiving_sequence_ = change.sequence();
  ++received_changes_;
  if (change.sequence() < next_sequence_) return absl::OkStatus();
  next_sequence_ = change.sequence() + 1;
  advanced_ = true;
  if (in_bootstrap_) handed_over_in_bootstrap_ = true;
  return handler_.OnChange(change);
}

absl::Status Delivery::EndTransaction(const v1::Transaction& part) {
  if (absl::Status complete = assembler_.CheckNothingHeld(); !complete.ok()) return complete;
  // No boundary resumes inside a bootstrap.
  if (part.cursor().empty() != in_bootstrap_ || part.changes_delivered() != received_changes_) {
    return ContractBroken(fmt::format("transaction {} ends with {} of {} delivered changes and {}",
                                      part.position(), received_changes_, part.changes_delivered(),
                                      part.cursor().empty() ? "no cursor" : "a cursor"));
  }
  if (absl::Status handled = handler_.OnTransactionEnd(part); !handled.ok()) return handled;
  last_position_ = part.position();
  receiving_position_.clear();
  open_position_.clear();
  if (!in_bootstrap_) Advance(part.cursor());
  return absl::OkStatus();
}

absl::Status Delivery::TakeRows(const v1::Rows& rows) {
  if (!in_bootstrap_) return ContractBroken("rows came where Opened announced none");
  absl::Status taken = assembler_.TakeRows(rows, [this](const ChangeView& row) {
    handed_over_in_bootstrap_ = true;
    return handler_.OnRow(row);
  });
  if (!taken.ok() || !rows.last()) return taken;
  if (absl::Status complete = assembler_.CheckNothingHeld(); !complete.ok()) return complete;
  if (rows.cursor().empty()) return ContractBroken("the rows end without a cursor");
  if (absl::Status handled = handler_.OnRowsEnd(rows.cursor()); !handled.ok()) return handled;
  in_bootstrap_ = false;
  Advance(rows.cursor());
  return absl::OkStatus();
}

absl::Status Delivery::TakeProgress(const v1::Progress& progress) {
  if (in_bootstrap_) {
    // No boundary resumes inside the rows, so none is shown to those who would store it.
    v1::Progress without_cursor = progress;
    without_cursor.clear_cursor();
    return handler_.OnProgress(without_cursor);
  }
  if (absl::Status handled = handler_.OnProgress(progress); !handled.ok()) return handled;
  if (!progress.cursor().empty() && receiving_position_.empty()) cursor_ = progress.cursor();
  return absl::OkStatus();
}

absl::Status Delivery::TakeClosing(const v1::Closing& closing) {
  closing_ = closing;
  if (in_bootstrap_) closing_.clear_cursor();
  if (absl::Status handled = handler_.OnClosing(closing_); !handled.ok()) return handled;
  if (!closing_.cursor().empty() && receiving_position_.empty()) cursor_ = closing_.cursor();
  return absl::OkStatus();
}

void Delivery::Advance(const std::string& cursor) {
  cursor_ = cursor;
  advanced_ = true;
}

}  // namespace tidemark::client
