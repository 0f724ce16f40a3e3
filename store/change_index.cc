#include "store/change_index.h"

#include <fmt/format.h>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "proto/reason.h"
#include "store/held_change.h"
#include "store/row_value.h"

namespace tidemark::store {
namespace {

constexpr PlaceOfChange PlaceAt(uint32_t number, uint32_t ordinal) {
  return uint64_t{number} << 32 | ordinal;
}
constexpr uint32_t NumberOf(PlaceOfChange place) { return static_cast<uint32_t>(place >> 32); }
constexpr uint32_t OrdinalOf(PlaceOfChange place) { return static_cast<uint32_t>(place); }

absl::Status Damaged(std::string_view found) {
  return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kStoreDamaged,
                         fmt::format("a change cannot be looked up: {}; `logdump verify` names "
                                     "everything that is wrong",
                                     found));
}

}  // namespace

uint64_t ChangeIndex::HashOf(std::string_view key) {
  return absl::HashOf(absl::string_view(key.data(), key.size()));
}

void ChangeIndex::Clear() {
  // Its memory is given back: most indexes are small, and one that was not is not needed again
  // soon.
  places_ = {};
  truncated_.clear();
  overflow_.reset();
  overflowed_ = false;
  next_number_ = 0;
}

absl::Status ChangeIndex::Add(uint32_t number, std::string_view bytes) {
  next_number_ = number + 1;
  walker_.Start(bytes);
  for (;;) {
    const RunWalker::Item item = walker_.Next();
    if (item == RunWalker::Item::kEnd) return absl::OkStatus();
    if (item == RunWalker::Item::kDamaged) return Damaged("a run that is no tidemark.v1.Run");
    if (item == RunWalker::Item::kPart) continue;
    const ChangeView& change = walker_.change();
    const auto table = keys_.Find(walker_.schema_ids()[change.table]);
    if (!table.ok()) return table.status();
    if (!(*table)->kept()) continue;
    const PlaceOfChange place = PlaceAt(number, change.ordinal);
    if (change.op == v1::OP_TRUNCATE) {
      truncated_[(*table)->prefix] = place;
      continue;
    }
    absl::Status status = change.op == v1::OP_DELETE ? RowKeys::OfKey(**table, change.key, &key_)
                                                     : RowKeys::OfRow(**table, change.after, &key_);
    if (status.ok()) status = Put(hash_(key_), place);
    if (!status.ok()) return status;
  }
}

absl::Status ChangeIndex::Put(uint64_t hash, PlaceOfChange place) {
  if (overflow_ != nullptr && places_.size() >= keys_max_ && !places_.contains(hash)) {
    const std::vector<IndexOverflow::Entry> entries(places_.begin(), places_.end());
    if (absl::Status status = overflow_->Put(entries); !status.ok()) return status;
    overflowed_ = true;
    places_.clear();
  }
  places_[hash] = place;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PlaceOfChange>> ChangeIndex::PlaceOf(uint64_t hash) {
  const auto found = places_.find(hash);
  if (found != places_.end()) return found->second;
  if (!overflowed_) return std::nullopt;
  return overflow_->Get(hash);
}

absl::StatusOr<ChangeIndex::Found> ChangeIndex::Find(std::string_view prefix, std::string_view key,
                                                     std::string* row) {
  const auto truncated = truncated_.find(absl::string_view(prefix.data(), prefix.size()));
  const Found unless_changed = truncated == truncated_.end() ? Found::kNotChanged : Found::kGone;
  const auto place = PlaceOf(hash_(key));
  if (!place.ok()) return place.status();
  if (!place->has_value()) return unless_changed;
  const PlaceOfChange oldest = truncated == truncated_.end() ? 0 : truncated->second;
  if (**place < oldest) return unless_changed;
  auto found = RowAt(**place, key, row);
  if (!found.ok()) return found.status();
  if (found->has_value()) return **found;
  const auto older = ScanBack(key, oldest, row);
  if (!older.ok() || *older != Found::kNotChanged) return older;
  return unless_changed;
}

absl::StatusOr<std::optional<ChangeIndex::Found>> ChangeIndex::RowAt(PlaceOfChange place,
                                                                     std::string_view key,
                                                                     std::string* row) {
  const auto bytes = runs_.Bytes(NumberOf(place), 0);
  if (!bytes.ok()) return bytes.status();
  walker_.Start(*bytes);
  RunWalker::Item item;
  do {
    item = walker_.Next();
  } while (item == RunWalker::Item::kPart ||
           (item == RunWalker::Item::kChange && walker_.change().ordinal != OrdinalOf(place)));
  if (item != RunWalker::Item::kChange) return Damaged("a run without the change that it had");
  const ChangeView& change = walker_.change();
  const auto is_it = IsOfKey(change, key);
  if (!is_it.ok()) return is_it.status();
  if (!*is_it) return std::nullopt;
  if (change.op == v1::OP_DELETE) return Found::kGone;
  if (absl::Status status = AppendWholeRow(NumberOf(place), change, row); !status.ok()) {
    return status;
  }
  return Found::kRow;
}

absl::StatusOr<bool> ChangeIndex::IsOfKey(const ChangeView& change, std::string_view key) {
  const auto table = keys_.Find(walker_.schema_ids()[change.table]);
  if (!table.ok()) return table.status();
  if (!(*table)->kept() || change.op == v1::OP_TRUNCATE) return false;
  const absl::Status status = change.op == v1::OP_DELETE
                                  ? RowKeys::OfKey(**table, change.key, &key_)
                                  : RowKeys::OfRow(**table, change.after, &key_);
  if (!status.ok()) return status;
  return key_ == key;
}

absl::Status ChangeIndex::AppendWholeRow(uint32_t number, const ChangeView& change,
                                         std::string* row) {
  const auto [position, first_sequence] = runs_.PlaceOf(number);
  const ChangeId id{position, first_sequence + change.ordinal, change.op, change.key_change};
  const uint64_t schema_id = walker_.schema_ids()[change.table];
  row->clear();
  AppendRowHeader(position, id.sequence, schema_id, row);
  if (!HeldChange::Needed(change.after)) {
    for (const std::string_view value : change.after) AppendRowField(value, row);
    return absl::OkStatus();
  }
  HeldChange held(id, schema_id, change.after);
  for (uint32_t part = 1; !held.whole(); ++part) {
    const auto bytes = runs_.Bytes(number, part);
    if (!bytes.ok()) return bytes.status();
    walker_.Start(*bytes);
    if (walker_.Next() != RunWalker::Item::kPart || !held.Add(walker_.part())) {
      return Damaged("a piece of a value that does not fit");
    }
  }
  for (const std::string_view value : held.after()) AppendRowField(value, row);
  return absl::OkStatus();
}

// Two keys have the same hash, and the other one was changed later: every run is looked at.
absl::StatusOr<ChangeIndex::Found> ChangeIndex::ScanBack(std::string_view key, PlaceOfChange oldest,
                                                         std::string* row) {
  for (uint32_t number = next_number_; number-- > NumberOf(oldest);) {
    const auto bytes = runs_.Bytes(number, 0);
    if (!bytes.ok()) return bytes.status();
    std::optional<PlaceOfChange> last;
    walker_.Start(*bytes);
    while (walker_.Next() == RunWalker::Item::kChange) {
      const auto is_it = IsOfKey(walker_.change(), key);
      if (!is_it.ok()) return is_it.status();
      if (*is_it) last = PlaceAt(number, walker_.change().ordinal);
    }
    if (!last || *last < oldest) continue;
    const auto found = RowAt(*last, key, row);
    if (!found.ok()) return found.status();
    return **found;
  }
  return Found::kNotChanged;
}

}  // namespace tidemark::store
