// Reads the current rows of one feed in pages: the wire bytes of Rows records. Values too large for
// a message follow their row in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/run_filter.h"
#include "store/rows_reader.h"

namespace tidemark {

struct RowsPage {
  // A serialized v1::Rows of one table; empty when the scan only moved on, or ended.
  std::string rows;
  uint64_t schema_id = 0;
  bool at_end = false;
};

// Thread rule: one thread at a time. The filter outlives it; of its ops nothing applies to rows.
class RowsPager {
 public:
  RowsPager(std::unique_ptr<store::RowsReader> reader, RunFilter& filter);

  const Position& boundary() const { return reader_->boundary(); }

  // A page ends when it has `bytes_target` bytes, at the end of a table, or when a bounded stretch
  // was read. It is at most one row without its large values larger than the target.
  absl::StatusOr<RowsPage> Next(size_t bytes_target);

 private:
  // The pieces of one large value of row_ that are still to be sent; a view, since the reader stays
  // on the row until then.
  struct Pieces {
    uint32_t column = 0;
    std::string_view value;
    size_t sent = 0;
  };

  absl::StatusOr<bool> Advance();
  absl::Status TakeLargeValues(std::string* values);
  void AppendPiece(RowsPage* page);

  const std::unique_ptr<store::RowsReader> reader_;
  RunFilter& filter_;
  store::StoredRow row_;
  // row_ was read and is not sent yet.
  bool row_waits_ = false;
  bool at_end_ = false;
  uint64_t schema_of_pieces_ = 0;
  std::deque<Pieces> pieces_;
};

}  // namespace tidemark
