// Prints a feed line by line and keeps the cursor file behind what is printed: the cursor is stored
// after the output was flushed, so a line may be printed again after a crash, but none is lost.
// Thread rule: that of FeedHandler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/command/output.h"
#include "client/cursor_store.h"
#include "client/feed_handler.h"

namespace tidemark::command {

enum class TailFormat { kText, kJsonl };

struct TailOptions {
  TailFormat format = TailFormat::kText;
  bool with_cursor = false;
  std::optional<uint64_t> transactions_max;
  // Ends behind the transaction with which so many changes were printed.
  std::optional<uint64_t> changes_max;
  bool until_idle = false;
  std::string where;  // for messages: server and feed
};

class TailPrinter : public client::FeedHandler {
 public:
  // Both are lent; `cursors` may be null.
  TailPrinter(TailOptions options, Output& output, client::CursorStore* cursors)
      : options_(std::move(options)), output_(output), cursors_(cursors) {}

  // It printed what it was asked for, and ended the stream by itself with CANCELLED.
  bool is_finished() const { return finished_; }

  absl::Status OnOpened(const v1::Opened& opened) override;
  absl::Status OnRow(const client::ChangeView& row) override;
  absl::Status OnRowsEnd(std::string_view cursor) override;
  absl::Status OnRowsAgain() override;
  absl::Status OnChange(const client::ChangeView& change) override;
  absl::Status OnTransactionEnd(const v1::Transaction& end) override;
  absl::Status OnProgress(const v1::Progress& progress) override;
  absl::Status OnSchemaChange(const v1::SchemaChange& change) override;
  absl::Status OnGap(const v1::Gap& gap) override;
  absl::Status OnClosing(const v1::Closing& closing) override;
  absl::Status OnMessageEnd() override;
  void OnDisconnected(const absl::Status& why, absl::Duration wait) override;

 private:
  std::string Line(const client::ChangeView& change) const;
  // Prints what is held back, once it is known whether a cursor belongs to it.
  absl::Status PrintHeld(std::string_view cursor);
  absl::Status Finish();

  const TailOptions options_;
  Output& output_;
  client::CursorStore* const cursors_;
  // The last line of the transaction so far.
  std::string held_;
  // Of what is printed but not stored yet; empty when there is none.
  std::string unstored_cursor_;
  std::string stored_cursor_;
  uint64_t transactions_ = 0;
  uint64_t changes_ = 0;
  bool finished_ = false;
};

}  // namespace tidemark::command
