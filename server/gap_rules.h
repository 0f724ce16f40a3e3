// What a gap means for what is stored: of the rows that may have missed changes, and of an end that
// was set before it. Pure but for looking at the store.
#pragma once

#include <cstdint>
#include <vector>

#include "store/feed_store.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark {

// Where nothing is read again, the current rows of every table that is captured are given up: what
// they missed is not known. CHANGES_MISSING; without a position.
std::vector<v1::LostTable> RowsBehindGap(const store::FeedStore& store, const v1::GapRecord& gap);

// A position of the source is the same one in the next generation; an end that was looked up (now,
// a time) and not reached is looked up again.
v1::StopRecord StopBehindGap(v1::StopRecord stop, uint32_t generation);

}  // namespace tidemark
