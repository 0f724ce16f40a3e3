// A transaction in the form in which it is stored and sent: what capture builds once, and nobody
// builds again. Plain values, moved from owner to owner; no thread rule beyond that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/position.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark {

// Consecutive changes of one transaction, or a piece of one large value.
struct EncodedRun {
  // __seq of the first change. For a piece of a value: __seq of the change that the value belongs
  // to.
  uint64_t first_sequence = 0;
  // 0 for a run of changes; 1, 2, … for the pieces of the values of the change at first_sequence,
  // in order. A change with a value in parts is alone in its run.
  uint32_t part = 0;
  // Number of changes; 0 in a piece of a value.
  uint32_t changes = 0;
  // A serialized tidemark.v1.Run without first_sequence. Depends only on the changes, so that a
  // re-capture gives equal bytes.
  std::string bytes;
  // A change in it leaves out what the current rows may tell: a column of the row after, or the row
  // before where that is wanted. For the step that fills it before it is stored; not stored itself.
  bool has_gaps = false;
};

// A whole small transaction.
struct EncodedTransaction {
  Position position;
  v1::CommitRecord record;
  std::vector<EncodedRun> runs;
};

}  // namespace tidemark
