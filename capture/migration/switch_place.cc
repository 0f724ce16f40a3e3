#include "capture/migration/switch_place.h"

namespace tidemark::capture {
namespace {

// Of PostgreSQL's log, in bytes; the first page of a segment has the long header.
constexpr uint64_t kPageBytes = 8192;
constexpr uint64_t kLongHeaderBytes = 40;

}  // namespace

SwitchPlace PlaceOfSwitch(postgres::Lsn from, std::span<const SlotCommit> commits,
                          const std::optional<postgres::XidSnapshot>& seen) {
  SwitchPlace place{from, true};
  bool passed_unseen = false;
  for (const SlotCommit& commit : commits) {
    if (seen && !seen->Sees(commit.xid)) {
      passed_unseen = true;
      continue;
    }
    place.at = commit.end;
    place.exact = seen.has_value() && !passed_unseen;
  }
  return place;
}

SwitchPlace PlaceBeforeMore(postgres::Lsn from, std::span<const SlotCommit> commits,
                            const std::optional<postgres::XidSnapshot>& seen) {
  if (commits.empty()) return {from, true};
  if (!seen || !seen->Sees(commits.front().xid)) return {commits.back().end, false};
  SwitchPlace place{from, true};
  for (const SlotCommit& commit : commits) {
    if (!seen->Sees(commit.xid)) break;
    place.at = commit.end;
  }
  return place;
}

postgres::Lsn FlushedWhenAll(postgres::Lsn inserted) {
  const uint64_t in_page = inserted % kPageBytes;
  return in_page <= kLongHeaderBytes ? inserted - in_page : inserted;
}

}  // namespace tidemark::capture
