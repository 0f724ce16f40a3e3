#include "store/key_format.h"

namespace tidemark::store {
namespace {

constexpr char kMarkerTag = 0;
constexpr char kRowTag = 1;

Position PositionAt(std::string_view bytes, size_t offset) {
  return *Position::FromBytes(bytes.substr(offset, Position::kBytes));
}

std::string MetaKey(char tag, FeedId feed) {
  std::string key(1, tag);
  AppendBig32(&key, feed);
  return key;
}

void AppendTable(std::string* key, std::string_view schema_name, std::string_view table_name) {
  key->append(schema_name);
  key->push_back('\0');
  key->append(table_name);
  key->push_back('\0');
}

}  // namespace

void AppendBig32(std::string* out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

void AppendBig64(std::string* out, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t ReadBig32(const char* in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(in[i]);
  return value;
}

uint64_t ReadBig64(const char* in) { return uint64_t{ReadBig32(in)} << 32 | ReadBig32(in + 4); }

std::string FeedPrefix(FeedId feed) {
  std::string key;
  AppendBig32(&key, feed);
  return key;
}

std::string LogKey::Encode() const {
  std::string key;
  key.reserve(kBytes);
  AppendBig32(&key, feed);
  key.append(position.bytes());
  AppendBig64(&key, sequence);
  AppendBig32(&key, part);
  return key;
}

std::optional<LogKey> LogKey::Decode(std::string_view key) {
  if (key.size() != kBytes) return std::nullopt;
  constexpr size_t kSequenceAt = 4 + Position::kBytes;
  return LogKey{ReadBig32(key.data()), PositionAt(key, 4), ReadBig64(key.data() + kSequenceAt),
                ReadBig32(key.data() + kSequenceAt + 8)};
}

std::string LogKeyBehind(FeedId feed, const Position& position) {
  // One byte longer than any entry of the transaction, with every byte at its largest.
  std::string key = FeedPrefix(feed);
  key.append(position.bytes());
  key.append(8 + 4 + 1, '\xFF');
  return key;
}

std::string SpoolKey::Encode() const {
  std::string key = SpoolPrefix(feed, spool_id);
  AppendBig64(&key, sequence);
  AppendBig32(&key, part);
  return key;
}

std::optional<SpoolKey> SpoolKey::Decode(std::string_view key) {
  if (key.size() != kBytes) return std::nullopt;
  return SpoolKey{ReadBig32(key.data()), ReadBig64(key.data() + 4), ReadBig64(key.data() + 12),
                  ReadBig32(key.data() + 20)};
}

std::string SpoolPrefix(FeedId feed, uint64_t spool_id) {
  std::string key;
  key.reserve(SpoolKey::kBytes);
  AppendBig32(&key, feed);
  AppendBig64(&key, spool_id);
  return key;
}

std::string RowsTablePrefix(FeedId feed, std::string_view schema_name,
                            std::string_view table_name) {
  std::string key = FeedPrefix(feed);
  key.push_back(kRowTag);
  AppendTable(&key, schema_name, table_name);
  return key;
}

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

std::string RowsMarkerKey(FeedId feed) {
  std::string key = FeedPrefix(feed);
  key.push_back(kMarkerTag);
  return key;
}

std::string RowsMarker::Encode() const {
  std::string value(folded.bytes());
  value.append(snapshot.bytes());
  return value;
}

std::optional<RowsMarker> RowsMarker::Decode(std::string_view value) {
  if (value.size() != 2 * Position::kBytes) return std::nullopt;
  return RowsMarker{PositionAt(value, 0), PositionAt(value, Position::kBytes)};
}

std::string SchemaKey(FeedId feed, uint64_t schema_id) {
  std::string key = FeedPrefix(feed);
  key.push_back('D');
  AppendBig64(&key, schema_id);
  return key;
}

std::string SchemaHistoryPrefix(FeedId feed) {
  std::string key = FeedPrefix(feed);
  key.push_back('H');
  return key;
}

std::string SchemaHistoryKey(FeedId feed, std::string_view schema_name, std::string_view table_name,
                             const Position& position, uint64_t sequence) {
  std::string key = SchemaHistoryPrefix(feed);
  AppendTable(&key, schema_name, table_name);
  key.append(position.bytes());
  AppendBig64(&key, sequence);
  return key;
}

std::string FormatKey() { return "F"; }
std::string NextFeedIdKey() { return "I"; }
std::string FeedNameKey(std::string_view name) { return std::string("N").append(name); }
std::string DropKey(std::string_view name) { return std::string("D").append(name); }
std::string FeedRecordKey(FeedId feed) { return MetaKey('R', feed); }
std::string CheckpointKey(FeedId feed) { return MetaKey('C', feed); }
std::string SnapshotWholeKey(FeedId feed) { return MetaKey('W', feed); }
std::string FloorKey(FeedId feed) { return MetaKey('L', feed); }
std::string NextSpoolIdKey(FeedId feed) { return MetaKey('U', feed); }
std::string SpooledPrefix(FeedId feed) { return MetaKey('S', feed); }
std::string SamplePrefix(FeedId feed) { return MetaKey('T', feed); }

std::string LostTablePrefix(FeedId feed) { return MetaKey('B', feed); }

std::string LostTableKey(FeedId feed, std::string_view schema_name, std::string_view table_name) {
  std::string key = LostTablePrefix(feed);
  key.append(schema_name);
  key.push_back('\0');
  key.append(table_name);
  return key;
}

std::string GapPrefix(FeedId feed) { return MetaKey('G', feed); }

std::string GapKey(FeedId feed, uint32_t generation) {
  std::string key = GapPrefix(feed);
  AppendBig32(&key, generation);
  return key;
}

std::string TableStatePrefix(FeedId feed) { return MetaKey('A', feed); }

std::string TableStateKey(FeedId feed, std::string_view schema_name, std::string_view table_name) {
  std::string key = TableStatePrefix(feed);
  AppendTable(&key, schema_name, table_name);
  return key;
}

std::string SpooledKey(FeedId feed, uint64_t id) {
  std::string key = SpooledPrefix(feed);
  AppendBig64(&key, id);
  return key;
}

std::string SampleKey(FeedId feed, const Position& position) {
  return SamplePrefix(feed).append(position.bytes());
}

}  // namespace tidemark::store
