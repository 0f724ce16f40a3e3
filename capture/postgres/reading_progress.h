// How far the reading of a table has come behind a chunk of it. Pure; safe from any thread.
#pragma once

#include "capture/postgres/table_chunk.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

// The rows of `chunk`, which were read in the order of their keys, are told. `some_by_key`: rows in
// what is read by now are still to be read by their keys, so that the reading does not come to its
// end. REQUIRES: `reading` is not looking for removed rows, and `chunk` has the key of the table.
void AdvanceReading(const TableChunk& chunk, bool some_by_key, v1::TableReading* reading);

}  // namespace tidemark::capture::postgres
