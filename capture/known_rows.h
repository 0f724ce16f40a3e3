// The current rows, where a source needs to look at them: to find what a table that is read again
// really differs in, to tell an insert from an update, to heal. Declared here, adapted to the store
// by server/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture {

struct KnownRow {
  // The row's replica identity, encoded: see KnownRows::EncodeKey.
  std::string key;
  // The schema that `after` stands under; it may be an older one of the table.
  uint64_t schema_id = 0;
  // The (position, sequence) that wrote it.
  Position position;
  uint64_t sequence = 0;
  // An after-image as ChangeImages takes it (value_writer.h, tag kAfter): one Value per column,
  // none in parts. Equal rows under equal schemas are equal bytes. A column that nobody ever told
  // is absent.
  std::string after;
};

// Owned by one thread; must not outlive the KnownRows. Pins files of the store: let go of it when
// the scan rests, and scan on from the last key.
class KnownRowScan {
 public:
  virtual ~KnownRowScan() = default;
  // Moves to the next row, rising by key; false behind the last row of the table.
  virtual absl::StatusOr<bool> Next(KnownRow* row) = 0;
};

// What is known stands at a commit boundary: after everything that earlier calls of Source::Read
// handed over, and before anything that the present one hands over. Parts of a large transaction
// that has not committed are not in it.
//
// Thread rule: for the thread of Source::Read, during Open and Read. Errors are the store's
// (STORE_*), and IDENTITY_UNUSABLE for a key with an absent value.
class KnownRows {
 public:
  virtual ~KnownRows() = default;

  // False: no rows of the table are kept (no key, or switched off), so that nothing is known.
  virtual bool Kept(const v1::TableSchema& table) const = 0;
  // The key of a row, from the serialized Values of the key columns in key order. Keys of one table
  // compare bytewise (memcmp): integers and floats by value, text and bytes bytewise, decimals and
  // times as text, which for text and those two is not the order that the source sorts in.
  virtual absl::StatusOr<std::string> EncodeKey(
      std::span<const std::string_view> key_values) const = 0;
  // nullopt when the table has no such row, and when no rows of it are kept.
  virtual absl::StatusOr<std::optional<KnownRow>> Find(const v1::TableSchema& table,
                                                       std::string_view key) = 0;
  // The rows of a table whose key is `from_key` or higher (empty: all), as of now, whatever is
  // appended later.
  virtual absl::StatusOr<std::unique_ptr<KnownRowScan>> Scan(const v1::TableSchema& table,
                                                             std::string_view from_key) = 0;
  // Names of the columns that rows of the table are told apart by, in key order, as of the newest
  // change of it; empty where it has no key, or was never told of.
  virtual std::vector<std::string> KeyColumns(std::string_view schema_name,
                                              std::string_view table_name) const = 0;
  // NotFound for an id that was never given.
  virtual absl::StatusOr<v1::TableSchema> Schema(uint64_t schema_id) const = 0;
};

}  // namespace tidemark::capture
