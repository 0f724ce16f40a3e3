// A place in a feed behind which changes may be missing. A plain value.
#pragma once

#include "proto/position.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::store {

// Everything at or before `from` is of one generation, everything behind `to` of the next; nothing
// lies between. A reader that goes from a boundary before `to` to one at or behind it is told.
struct Gap {
  Position from;
  Position to;
  v1::GapRecord record;
};

}  // namespace tidemark::store
