// The keys of every column family, as FORMAT.md lays them out byte by byte; writer, readers and the
// offline tool share them. All numbers are big-endian, so that memcmp order is their order. Pure;
// safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/position.h"

namespace tidemark::store {

inline constexpr uint32_t kFormatVersion = 3;

// Column families. RocksDB's own "default" stays empty.
inline constexpr char kLogFamily[] = "log";
inline constexpr char kSpoolFamily[] = "spool";
inline constexpr char kRowsFamily[] = "rows";
inline constexpr char kSchemasFamily[] = "schemas";
inline constexpr char kMetaFamily[] = "meta";

using FeedId = uint32_t;

void AppendBig32(std::string* out, uint32_t value);
void AppendBig64(std::string* out, uint64_t value);
// REQUIRES: at least 4, 8 bytes.
uint32_t ReadBig32(const char* in);
uint64_t ReadBig64(const char* in);

// Every key of the families log, spool, rows and schemas begins with the feed: [FeedPrefix(feed),
// FeedPrefix(feed + 1)) is all of a feed.
std::string FeedPrefix(FeedId feed);

// log: feed (4) | position (20) | sequence (8) | part (4).
struct LogKey {
  static constexpr size_t kBytes = 4 + Position::kBytes + 8 + 4;
  FeedId feed = 0;
  Position position;
  uint64_t sequence = 0;
  uint32_t part = 0;

  std::string Encode() const;
  // nullopt unless `key` is exactly kBytes long.
  static std::optional<LogKey> Decode(std::string_view key);
};
// Behind every entry of the transaction at `position`, before any of the next.
std::string LogKeyBehind(FeedId feed, const Position& position);

// spool: feed (4) | spool id (8) | sequence (8) | part (4).
struct SpoolKey {
  static constexpr size_t kBytes = 4 + 8 + 8 + 4;
  FeedId feed = 0;
  uint64_t spool_id = 0;
  uint64_t sequence = 0;
  uint32_t part = 0;

  std::string Encode() const;
  static std::optional<SpoolKey> Decode(std::string_view key);
};
// [SpoolPrefix(feed, id), SpoolPrefix(feed, id + 1)) is all of one transaction.
std::string SpoolPrefix(FeedId feed, uint64_t spool_id);

// rows: feed (4) | 0x01 | schema name | 0x00 | table name | 0x00 | identity key. All rows of a
// table share the prefix; the identity key is identity_key.h's. Names hold no zero byte at any
// source.
std::string RowsTablePrefix(FeedId feed, std::string_view schema_name, std::string_view table_name);
// The first key behind every key that begins with `prefix`. REQUIRES: it does not end in 0xFF.
std::string PrefixEnd(std::string_view prefix);
// rows: feed (4) | 0x00, before every row: how far the rows are folded. Absent while the initial
// snapshot is not whole.
std::string RowsMarkerKey(FeedId feed);
struct RowsMarker {
  // Every transaction at or before it is in the rows, and no other.
  Position folded;
  // Boundary of the initial snapshot: the position of rows that no transaction has written since.
  Position snapshot;

  // folded (20) | snapshot (20)
  std::string Encode() const;
  static std::optional<RowsMarker> Decode(std::string_view value);
};

// schemas: feed (4) | 'D' | schema id (8): the TableSchema of that id.
std::string SchemaKey(FeedId feed, uint64_t schema_id);
// schemas: feed (4) | 'H' | schema name | 0x00 | table name | 0x00 | position (20) | sequence (8):
// id (8) of the schema that holds from there.
std::string SchemaHistoryPrefix(FeedId feed);
std::string SchemaHistoryKey(FeedId feed, std::string_view schema_name, std::string_view table_name,
                             const Position& position, uint64_t sequence);

// meta: one letter, then what it belongs to.
std::string FormatKey();                    // F: format version (4)
std::string NextFeedIdKey();                // I: next feed id (4)
std::string FeedNameKey(std::string_view);  // N | name: feed id (4)
std::string DropKey(std::string_view);      // D | name: DropRecord
std::string FeedRecordKey(FeedId);          // R | feed: FeedRecord
std::string CheckpointKey(FeedId);          // C | feed: Checkpoint
std::string SnapshotWholeKey(FeedId);       // W | feed: boundary of the initial snapshot (20)
std::string FloorKey(
    FeedId);  // L | feed: floor (20) | commit time (8) | bytes (8) | transactions (8)
std::string NextSpoolIdKey(FeedId);           // U | feed: next spool id (8)
std::string SpooledKey(FeedId, uint64_t id);  // S | feed | spool id (8): position (20)
std::string SpooledPrefix(FeedId);
// A | feed | schema name | 0x00 | table name | 0x00: TableState
std::string TableStateKey(FeedId, std::string_view schema_name, std::string_view table_name);
std::string TableStatePrefix(FeedId);
// T | feed | position (20): commit time (8) | bytes (8); see log_sample.h.
std::string SampleKey(FeedId, const Position&);
std::string SamplePrefix(FeedId);
// B | feed | schema name | 0x00 | table name: LostTable.
std::string LostTableKey(FeedId, std::string_view schema_name, std::string_view table_name);
std::string LostTablePrefix(FeedId);
// G | feed | generation (4) that begins behind it: GapRecord.
std::string GapKey(FeedId, uint32_t generation);
std::string GapPrefix(FeedId);

}  // namespace tidemark::store
