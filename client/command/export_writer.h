// Writes a feed up to its bound into an export's file, and notes at the boundaries of transactions
// how far it came. Thread rule: that of FeedHandler.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "client/command/export_file.h"
#include "client/feed_handler.h"

namespace tidemark::command {

// What an export loses at most when it is killed, and has to read again.
inline constexpr uint64_t kExportSaveBytes = uint64_t{8} << 20;
inline constexpr absl::Duration kExportSavePeriod = absl::Seconds(2);

class ExportWriter : public client::FeedHandler {
 public:
  // Goes on behind what `file` has. `file` is lent.
  explicit ExportWriter(ExportFile& file);

  // The bound was reached: only then the file may be finished.
  bool is_finished() const { return finished_; }
  // As of the last boundary.
  const ExportState& state() const { return boundary_; }

  absl::Status OnOpened(const v1::Opened& opened) override;
  absl::Status OnRow(const client::ChangeView& row) override;
  absl::Status OnRowsEnd(std::string_view cursor) override;
  absl::Status OnRowsAgain() override;
  absl::Status OnTransactionBegin(const v1::Transaction& begin) override;
  absl::Status OnChange(const client::ChangeView& change) override;
  absl::Status OnTransactionEnd(const v1::Transaction& end) override;
  absl::Status OnProgress(const v1::Progress& progress) override;
  absl::Status OnGap(const v1::Gap& gap) override;
  absl::Status OnBound(const v1::Bound& bound) override;
  absl::Status OnClosing(const v1::Closing& closing) override;
  absl::Status OnMessageEnd() override;
  void OnDisconnected(const absl::Status& why, absl::Duration wait) override;

 private:
  absl::Status AddLine(const client::ChangeView& change);
  absl::Status AddHeader(const client::ChangeView& change);
  // Everything up to `cursor` stands in the file.
  void Reached(std::string_view cursor);

  ExportFile& file_;
  const bool csv_;
  // With what stands in the file behind the last boundary.
  ExportState now_;
  ExportState boundary_;
  // CSV: the schema of which the header is.
  uint64_t fitting_schema_id_ = 0;
  bool in_bootstrap_ = false;
  bool in_transaction_ = false;
  bool save_now_ = false;
  bool finished_ = false;
  absl::Time saved_at_;
};

}  // namespace tidemark::command
