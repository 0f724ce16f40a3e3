// The fold: from changes of the log to the last change of every key. Pure but for the lookups that
// it is given; owned by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/byte_arena.h"
#include "store/held_change.h"
#include "store/key_format.h"
#include "store/log_reader.h"
#include "store/run_walker.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::store {

struct FoldedRow {
  std::string_view key;
  // As row_value.h; meaningless when deleted.
  std::string_view value;
  bool deleted = false;
};

// What a stretch of the log does to the rows: first the rows of the truncated tables go, then each
// of `rows` is written or removed.
struct FoldedRows {
  // Key prefixes (RowsTablePrefix), rising.
  std::vector<std::string> truncated;
  // Rising by key; each key once.
  std::vector<FoldedRow> rows;
  size_t bytes = 0;
  // Owns what the views above show.
  ByteArena arena;

  bool empty() const { return truncated.empty() && rows.empty(); }
};

// What the fold needs to know.
struct FoldLookups {
  // NotFound fails the fold.
  std::function<absl::StatusOr<v1::TableSchema>(uint64_t schema_id)> schema;
  std::function<bool(const v1::TableSchema&)> keeps_rows;
  // The value under a key of the rows family as the rows stand before what was not taken yet;
  // nullopt when there is none. Asked only where an update says nothing about a column.
  std::function<absl::StatusOr<std::optional<std::string>>(std::string_view key)> stored_row;
};

// Any error leaves the fold unusable: begin again with a new one from the folded boundary. Errors
// are those of the lookups, STORE_DAMAGED and IDENTITY_UNUSABLE; they name position and sequence.
class Fold {
 public:
  Fold(FeedId feed, FoldLookups lookups) : feed_(feed), lookups_(std::move(lookups)) {}

  // Takes the runs of the log in order, without a hole. A column that an update (or the insert half
  // of a change of the key) leaves absent keeps its value of the row before, found by name where
  // its type is still the same; else it stays absent. A truncate drops what came before it. Values
  // in parts are put together. Tables without rows are passed over.
  absl::Status Add(const StoredRun& run);

  // What was added since the last Take. May be called inside a transaction, even inside a value;
  // then the rows taken are not those of a commit boundary, and stored_row has to know them.
  absl::StatusOr<FoldedRows> Take();

  // Memory held, by estimate.
  size_t bytes() const { return arena_.bytes() + entries_ * kEntryBytes; }

 private:
  static constexpr size_t kEntryBytes = 96;

  struct Entry {
    char* value = nullptr;
    size_t size = 0;
    size_t capacity = 0;
    bool deleted = false;
  };
  struct Table {
    std::string prefix;
    bool truncated = false;
    absl::flat_hash_map<absl::string_view, Entry> entries;
  };
  struct Schema {
    v1::TableSchema schema;
    // Null: rows are not kept.
    Table* table = nullptr;
  };
  // The delete half of a change of the key: what the insert half goes on from.
  struct KeyChange {
    Position position;
    uint64_t sequence = 0;
    // The row that was removed, where it is known already; else it is stored under `key`, if
    // `in_store`.
    std::optional<std::string> row;
    std::string key;
    bool in_store = false;
  };

  absl::Status AddChange(const StoredRun& run);
  absl::Status AddPart();
  absl::StatusOr<const Schema*> FindSchema(uint64_t id);
  absl::Status Write(const Schema& schema, const ChangeId& id,
                     const std::vector<std::string_view>& after);
  absl::Status Delete(const Schema& schema, const ChangeId& id,
                      const std::vector<std::string_view>& key);
  void Truncate(Table* table);
  absl::Status BuildKey(const Table& table, const std::vector<std::string_view>& identity);
  absl::Status BuildRow(const Schema& schema, const ChangeId& id,
                        const std::vector<std::string_view>& after);
  absl::Status FillFrom(std::string_view row, const Schema& schema,
                        std::vector<std::string_view>* after);
  absl::StatusOr<std::optional<std::string>> RowBefore(const Table& table, const ChangeId& id);
  absl::Status ResolveKeyChange();
  Entry* EntryOfKey(Table* table);

  const FeedId feed_;
  const FoldLookups lookups_;
  absl::node_hash_map<uint64_t, Schema> schemas_;
  absl::node_hash_map<std::string, Table> tables_;
  ByteArena arena_;
  size_t entries_ = 0;
  std::optional<HeldChange> held_;
  std::optional<KeyChange> key_change_;
  // Scratch, kept for its memory: the walker's vectors, the key and the row being built.
  RunWalker walker_;
  std::string key_;
  std::string row_;
  std::vector<std::string_view> identity_;
};

}  // namespace tidemark::store
