// What a change of a row says to those who read its table beside the stream. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/known_rows.h"
#include "capture/postgres/chunk_window.h"
#include "capture/postgres/moved_rows.h"
#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/relation_cache.h"
#include "capture/postgres/row_encoder.h"

namespace tidemark::capture::postgres {

// A row as it is, or as it was when it is gone, and as it was before. Lent.
struct RowTuples {
  Tuple row;
  Tuple old_row;
};

// The columns whose values are in neither of them, rising.
std::vector<uint32_t> ColumnsLeftOut(const RowTuples& tuples);

// Tells `window`, which is open for the table, the keys that the row had and has. `rows_known`: its
// rows are known rightly, also where a change leaves values out.
void TouchWindow(const Relation& relation, const RowTuples& tuples, bool rows_known,
                 const KnownRows& known, const MovedRows& moved, RowEncoder* encoder,
                 ChunkWindow* window);

// Notes a row that took along to another key what it left out, whatever window is open.
void NoteMove(const Relation& relation, const RowTuples& tuples, MovedRows* moved);

}  // namespace tidemark::capture::postgres
