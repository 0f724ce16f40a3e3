// How RocksDB is opened: the families, and every bound on the store's memory and files. Pure; safe
// from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "store/store.h"

namespace tidemark::store {

// Memory, in bytes. The whole stays below kStoreMemoryBytesMax, whatever the size of a transaction.
inline constexpr size_t kWriteBuffersBytesMax = size_t{40} << 20;
inline constexpr size_t kBlockCacheBytesMax = size_t{24} << 20;
inline constexpr size_t kLogMemtableBytes = size_t{12} << 20;
inline constexpr size_t kSpoolMemtableBytes = size_t{12} << 20;
inline constexpr size_t kRowsMemtableBytes = size_t{8} << 20;
inline constexpr size_t kSmallMemtableBytes = size_t{2} << 20;
inline constexpr size_t kStoreMemoryBytesMax = size_t{80} << 20;
static_assert(kWriteBuffersBytesMax + kBlockCacheBytesMax < kStoreMemoryBytesMax);
static_assert(kLogMemtableBytes + kSpoolMemtableBytes + kRowsMemtableBytes +
                  2 * kSmallMemtableBytes <=
              kWriteBuffersBytesMax);

// What has to be read again after a crash, at most.
inline constexpr uint64_t kWalBytesMax = uint64_t{96} << 20;
// Files are what retention drops, so they stay small beside any sensible bound on the log.
inline constexpr uint64_t kFileBytes = uint64_t{16} << 20;
inline constexpr int kOpenFilesMax = 512;
// The kernel writes back this often, so that a sync finds little left to do.
inline constexpr uint64_t kWriteBackBytes = uint64_t{512} << 10;

rocksdb::DBOptions DatabaseOptions(const StoreOptions& options);

// One descriptor per family, "default" first, in the order log, spool, rows, schemas, meta.
std::vector<rocksdb::ColumnFamilyDescriptor> Families();

}  // namespace tidemark::store
