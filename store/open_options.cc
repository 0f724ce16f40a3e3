#include "store/open_options.h"

#include "rocksdb/cache.h"
#include "rocksdb/env.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"
#include "rocksdb/write_buffer_manager.h"
#include "store/key_format.h"

namespace tidemark::store {
namespace {

constexpr size_t kLogBlockBytes = size_t{32} << 10;
constexpr size_t kRowBlockBytes = size_t{8} << 10;
constexpr double kRowFilterBitsPerKey = 10;
// Few: a shard has to take the largest block, and hardly two threads meet in the cache.
constexpr int kCacheShardBits = 2;
// Files of the log and the spool do not overlap, and the fold keeps its own pace: a stall of one
// family would stall every feed, so stalls come far later than RocksDB's defaults.
constexpr int kStallFiles = 200;

rocksdb::ColumnFamilyOptions Family(size_t memtable_bytes, size_t block_bytes,
                                    const std::shared_ptr<rocksdb::Cache>& cache,
                                    bool point_lookups) {
  rocksdb::ColumnFamilyOptions family;
  family.write_buffer_size = memtable_bytes;
  family.max_write_buffer_number = 3;
  family.compression = rocksdb::kLZ4Compression;
  family.target_file_size_base = kFileBytes;
  family.level0_slowdown_writes_trigger = kStallFiles;
  family.level0_stop_writes_trigger = 2 * kStallFiles;
  family.soft_pending_compaction_bytes_limit = 0;
  family.hard_pending_compaction_bytes_limit = 0;
  family.level_compaction_dynamic_level_bytes = true;
  // Nothing here expires by age of a file.
  family.ttl = 0;
  family.periodic_compaction_seconds = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = block_bytes;
  table.format_version = 5;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = false;
  if (point_lookups) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kRowFilterBitsPerKey));
    // The filter of a whole file is larger than what a shard of the cache takes: in one piece it
    // would be read from the file for every row.
    table.partition_filters = true;
    table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  }
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return family;
}

}  // namespace

rocksdb::DBOptions DatabaseOptions(const StoreOptions& options) {
  rocksdb::DBOptions database;
  if (options.env != nullptr) database.env = options.env;
  database.create_if_missing = !options.read_only;
  database.create_missing_column_families = !options.read_only;
  database.paranoid_checks = true;
  // A power loss leaves a torn end, which is cut off; that nothing synced is missing is checked
  // against the source's confirmed position when capture starts.
  database.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  database.max_total_wal_size = kWalBytesMax;
  database.write_buffer_manager =
      std::make_shared<rocksdb::WriteBufferManager>(kWriteBuffersBytesMax);
  database.max_background_jobs = 2;
  database.max_open_files = kOpenFilesMax;
  database.bytes_per_sync = kWriteBackBytes;
  database.wal_bytes_per_sync = kWriteBackBytes;
  database.avoid_unnecessary_blocking_io = true;
  database.keep_log_file_num = 4;
  database.max_log_file_size = size_t{4} << 20;
  database.stats_dump_period_sec = 0;
  database.stats_persist_period_sec = 0;
  return database;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families() {
  const auto cache = rocksdb::NewLRUCache(kBlockCacheBytesMax, kCacheShardBits);
  return {
      {rocksdb::kDefaultColumnFamilyName,
       Family(kSmallMemtableBytes, kRowBlockBytes, cache, false)},
      {kLogFamily, Family(kLogMemtableBytes, kLogBlockBytes, cache, false)},
      {kSpoolFamily, Family(kSpoolMemtableBytes, kLogBlockBytes, cache, false)},
      {kRowsFamily, Family(kRowsMemtableBytes, kRowBlockBytes, cache, true)},
      {kSchemasFamily, Family(kSmallMemtableBytes, kRowBlockBytes, cache, false)},
      {kMetaFamily, Family(kSmallMemtableBytes, kRowBlockBytes, cache, false)},
  };
}

}  // namespace tidemark::store
