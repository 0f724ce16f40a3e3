// The keys of a large transaction that do not fit into memory, in the family spool under an id that
// never commits: hash of the key in the place of the sequence, place of the change as the value.
// Gone with this object, at the latest at the next start of the store. Used by the writer's thread
// alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/change_index.h"
#include "store/database.h"
#include "store/key_format.h"

namespace tidemark::store {

class SpoolIndex final : public IndexOverflow {
 public:
  SpoolIndex(Database* database, FeedId feed, uint64_t spool_id)
      : database_(*database), feed_(feed), spool_id_(spool_id) {}
  ~SpoolIndex() override;

  absl::Status Put(const std::vector<Entry>& entries) override;
  absl::StatusOr<std::optional<PlaceOfChange>> Get(uint64_t hash) override;

 private:
  Database& database_;
  const FeedId feed_;
  const uint64_t spool_id_;
};

}  // namespace tidemark::store
