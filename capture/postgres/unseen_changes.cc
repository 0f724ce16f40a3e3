#include "capture/postgres/unseen_changes.h"

#include <algorithm>
#include <utility>

namespace tidemark::capture::postgres {

void UnseenChanges::Began(uint32_t xid) {
  xid_ = xid;
  counts_ = open_ && void_because_.empty() && (!snapshot_ || !snapshot_->Sees(xid));
  if (!counts_) return;
  builder_.Begin();
  schema_id_ = 0;
  spoils_.clear();
}

void UnseenChanges::Announced(const RelationDescription& description) {
  if (!counts_ || description.oid == subject_.oid) return;
  if (description.schema_name != subject_.schema || description.table_name != subject_.table) {
    return;
  }
  spoils_ = "another table took its name";
}

TransactionBuilder* UnseenChanges::Changes(const Relation& relation) {
  const RelationDescription& description = relation.description;
  if (!Counts(description.oid)) return nullptr;
  if (description.schema_name != subject_.schema || description.table_name != subject_.table) {
    spoils_ = "it got another name";
  } else if (!relation.shape.key_columns.empty()) {
    spoils_ = "it got a key";
  } else if (!snapshot_ && held_bytes_ + builder_.bytes() > kUnseenHeldBytesMax) {
    Void("too much of it was changed before its snapshot was taken");
  }
  if (!spoils_.empty() || !void_because_.empty()) return nullptr;
  if (schema_id_ != 0 && schema_id_ != relation.shape.schema_id) builder_.CutRun();
  schema_id_ = relation.shape.schema_id;
  if (snapshot_) AddRuns(builder_.TakeFullRuns());
  return &builder_;
}

void UnseenChanges::Committed() {
  recent_.Add(xid_);
  if (!std::exchange(counts_, false) || !void_because_.empty()) return;
  Held held{xid_, builder_.Finish(Position(), v1::CommitRecord()), std::exchange(spoils_, {})};
  if (snapshot_) return Keep(std::move(held));
  if (held.changes.record.changes() == 0 && held.spoils.empty()) return;
  held_bytes_ += held.changes.record.bytes();
  held_.push_back(std::move(held));
}

void UnseenChanges::Open(Subject subject) {
  Close();
  open_ = true;
  subject_ = std::move(subject);
  recent_.Mark();
}

void UnseenChanges::Close() {
  open_ = counts_ = in_parts_ = false;
  subject_ = {};
  snapshot_.reset();
  void_because_.clear();
  held_.clear();
  kept_.clear();
  held_bytes_ = kept_bytes_ = 0;
  record_.Clear();
}

void UnseenChanges::Use(const XidSnapshot& snapshot) {
  snapshot_ = snapshot;
  if (!recent_.SeesMarked(snapshot)) {
    Void("its snapshot did not see a commit yet that was streamed before");
  }
  for (Held& held : std::exchange(held_, {})) {
    if (void_because_.empty() && !snapshot.Sees(held.xid)) Keep(std::move(held));
  }
  held_bytes_ = 0;
}

void UnseenChanges::Keep(Held held) {
  if (!held.spoils.empty()) return Void(std::move(held.spoils));
  AddRuns(std::move(held.changes.runs));
  const v1::CommitRecord& one = held.changes.record;
  record_.set_changes(record_.changes() + one.changes());
  record_.set_bytes(record_.bytes() + one.bytes());
  for (const uint64_t id : one.schema_ids()) {
    const auto& ids = record_.schema_ids();
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) record_.add_schema_ids(id);
  }
}

void UnseenChanges::AddRuns(std::vector<EncodedRun> runs) {
  for (EncodedRun& run : runs) {
    run.first_sequence += record_.changes();
    kept_bytes_ += run.bytes.size();
    kept_.push_back(std::move(run));
  }
}

std::vector<EncodedRun> UnseenChanges::Take() {
  in_parts_ = true;
  kept_bytes_ = 0;
  return std::exchange(kept_, {});
}

void UnseenChanges::Void(std::string because) {
  void_because_ = std::move(because);
  held_.clear();
  kept_.clear();
  held_bytes_ = kept_bytes_ = 0;
}

}  // namespace tidemark::capture::postgres
