// Encodes decoded rows and adds them to a transaction: which images a change carries, when an
// update is a change of key, which columns are absent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/type_catalog.h"
#include "capture/transaction_builder.h"
#include "capture/value_writer.h"

namespace tidemark::capture::postgres {

// What rows of one table, under one schema, are encoded with.
struct RowShape {
  uint64_t schema_id = 0;
  // schema.table, for errors.
  std::string table_name;
  // In the order of the tuple and of TableSchema.columns.
  std::vector<std::shared_ptr<const ValueType>> types;
  // Names of the columns, for errors.
  std::vector<std::string> column_names;
  // TableSchema.key_columns: the replica identity, the primary key under replica identity full.
  std::vector<uint32_t> key_columns;
  // Current rows can fill what a change leaves out (EncodedRun::has_gaps).
  bool rows_kept = false;
  // They are to tell the row before each change too, where the source does not.
  bool wants_before = false;
};

// Errors are SOURCE_PROTOCOL and name table and column: a tuple of another width, a value that is
// not one of its type, a binary value, a key column that is not there. Thread rule: one thread at a
// time (it keeps buffers).
class RowEncoder {
 public:
  absl::Status AddInsert(const RowShape& shape, const InsertMessage& insert,
                         TransactionBuilder* builder);
  // An unchanged TOAST value is taken from the old row where that is there, and is absent
  // otherwise, which is a gap. When a key column differs: a delete of the old key and an insert of
  // the new one.
  absl::Status AddUpdate(const RowShape& shape, const UpdateMessage& update,
                         TransactionBuilder* builder);
  // The key, and the row before under replica identity full. A table without a key has only that.
  absl::Status AddDelete(const RowShape& shape, const DeleteMessage& removal,
                         TransactionBuilder* builder);
  void AddTruncate(const RowShape& shape, TransactionBuilder* builder);
  // A row that a snapshot read, as OP_READ. nullopt is NULL.
  absl::Status AddRead(const RowShape& shape, std::span<const std::optional<std::string_view>> row,
                       TransactionBuilder* builder);
  // The same from one line of COPY TO STDOUT in text format, without its line end.
  absl::Status AddCopyLine(const RowShape& shape, std::string_view line,
                           TransactionBuilder* builder);

  // The after-image that AddCopyLine would add.
  absl::Status EncodeCopyLine(const RowShape& shape, std::string_view line, std::string* after);
  // The serialized Values of the key columns of `row`, in key order. Where one of them is
  // unchanged, it is that of `old_row`.
  absl::StatusOr<std::vector<std::string>> KeyValues(const RowShape& shape, Tuple row,
                                                     Tuple old_row);

  // A composite that does not read under the attributes that its type has in the catalog was
  // written when it had others. From now on, until it is set back, its column is encoded as the
  // text that the source prints.
  void AllowCompositeText(bool allow) { composite_text_allowed_ = allow; }

  // How many sequence numbers AddUpdate would take: 2 for a change of key, else 1.
  static uint64_t ChangesOf(const RowShape& shape, const UpdateMessage& update);

 private:
  absl::Status EncodeRead(const RowShape& shape,
                          std::span<const std::optional<std::string_view>> row, std::string* after);
  absl::Status AppendColumn(const RowShape& shape, size_t column, const TupleColumn& value,
                            ValueTag tag, std::string* out);
  absl::Status EncodeRow(const RowShape& shape, Tuple row, ValueTag tag, std::string* out);
  absl::Status EncodeAfter(const RowShape& shape, const UpdateMessage& update);
  absl::Status EncodeKey(const RowShape& shape, Tuple old_row);

  bool composite_text_allowed_ = false;
  // A gap that current rows may fill, given the row before it (before_).
  bool HasGap(const RowShape& shape) const;

  std::string after_;
  bool after_has_absent_ = false;
  std::string before_;
  std::string key_;
  std::string unescaped_;
  std::vector<std::optional<std::string_view>> copy_row_;
};

}  // namespace tidemark::capture::postgres
