// Where in the log a feed goes on that was polled until now.
//
// What the last poll saw is what its snapshot saw. Where the transactions that it saw are those
// that committed up to some place in the log, the log is read from that place on: no change comes
// twice, and none that lies behind what was told. A commit is in the log a moment before snapshots
// see it, so there may be no such place; another poll, a moment later, has one nearly always. Pure;
// safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "capture/poll/poll_sight.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/xid_snapshot.h"

namespace tidemark::capture {

// A transaction of the slot, in the order of the log.
struct SlotCommit {
  uint32_t xid = 0;
  postgres::Lsn end = 0;
};

struct SwitchPlace {
  postgres::Lsn at = 0;
  // The snapshot saw what committed up to there, and nothing else. If not: everything that it saw
  // lies at or before `at`, and maybe more, which the comparison of the tables finds.
  bool exact = false;
};

// `commits`: everything that may have been seen, behind `from`, which was. nullopt: what was seen
// is not known.
SwitchPlace PlaceOfSwitch(postgres::Lsn from, std::span<const SlotCommit> commits,
                          const std::optional<postgres::XidSnapshot>& seen);

// How far can be passed over where more comes behind `commits`: the end of the last up to which all
// were seen. Where there is none, or it is not known what was seen, the end of them all, which is
// not exact.
SwitchPlace PlaceBeforeMore(postgres::Lsn from, std::span<const SlotCommit> commits,
                            const std::optional<postgres::XidSnapshot>& seen);

// Up to where the log has to be flushed for everything in it to be flushed that lies before the
// insert position `inserted`: that may stand behind the header of a page of which nothing is
// written yet, and then no flush comes to it.
postgres::Lsn FlushedWhenAll(postgres::Lsn inserted);

}  // namespace tidemark::capture
