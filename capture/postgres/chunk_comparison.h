// What a chunk whose fence was passed says of the rows that are known. The reading of a table tells
// the differences as changes, its verification reports them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/known_keys.h"
#include "capture/known_rows.h"
#include "capture/postgres/chunk_window.h"
#include "capture/postgres/row_encoder.h"
#include "capture/postgres/table_chunk.h"
#include "capture/row_image.h"

namespace tidemark::capture::postgres {

// One key: what the source has of it, beside what is known.
enum class RowVerdict {
  kTouched,    // the stream changed it meanwhile: the chunk says nothing of it
  kLeftOut,    // the stream changed it meanwhile, and did not say all of it: to be read again
  kSame,       // by asked keys: both have it
  kMissing,    // only the source has it
  kDifferent,  // both have it, and columns differ
  kExtra,      // only known
  kNowhere,    // neither has it any more
};

struct ComparedRow {
  RowVerdict verdict = RowVerdict::kTouched;
  // As KnownRows::EncodeKey.
  std::string key;
  // The row as the source has it, an after-image: where the stream changed it meanwhile, and left
  // values out, those values put into what is known since. And the line that it came in. Valid
  // during the call.
  std::string_view after;
  std::string_view line;
  // kDifferent only.
  std::vector<ColumnDifference> columns;
};

// Thread rule: that of KnownRows. What is lent outlives it. Errors are those of KnownRows, and
// SOURCE_PROTOCOL for a line that is no row of the chunk's table.
class ChunkComparison {
 public:
  ChunkComparison(KnownRows* known, const ChunkWindow* window) : known_(*known), window_(*window) {}

  // Every row that was read. REQUIRES: the lines are whole rows.
  absl::Status Rows(const TableChunk& chunk, const std::function<void(const ComparedRow&)>& take);
  // Every key that was asked for: whether the source has it, nothing of its row. REQUIRES: the
  // lines are the key columns of those that are there.
  absl::Status Keys(const TableChunk& chunk, std::span<const KnownKey> asked,
                    const std::function<void(const KnownKey&, RowVerdict)>& take);

 private:
  absl::Status CompareRow(const Relation& relation, ComparedRow* row);
  // Puts what the stream left out into what it made of the row; false where they do not go
  // together.
  absl::StatusOr<bool> PutTogether(const ChunkWindow::Touched& touched, const KnownRow& known,
                                   const Relation& relation, ComparedRow* row);
  absl::StatusOr<std::string> KeyOf(const RowShape& shape, std::string_view after) const;

  KnownRows& known_;
  const ChunkWindow& window_;
  RowEncoder encoder_;
  std::string after_;
  std::string put_together_;
};

// The text of each key column in a line of whole rows, as PostgreSQL takes it. Pure.
std::vector<std::string> KeyTextsOf(const RowShape& shape, std::string_view line);

}  // namespace tidemark::capture::postgres
