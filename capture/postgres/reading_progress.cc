#include "capture/postgres/reading_progress.h"

#include <string>
#include <utility>

#include "capture/postgres/chunk_comparison.h"

namespace tidemark::capture::postgres {

void AdvanceReading(const TableChunk& chunk, bool some_by_key, v1::TableReading* reading) {
  reading->set_rows_read(reading->rows_read() + chunk.lines.size());
  if (!chunk.lines.empty()) {
    reading->clear_after_key();
    for (std::string& text : KeyTextsOf(chunk.relation.shape, chunk.lines.back())) {
      reading->add_after_key(std::move(text));
    }
  }
  if (!chunk.at_end || some_by_key) return;
  // A table of which nothing was known has nothing that could be gone.
  reading->set_removing(!reading->fresh());
  reading->set_done(reading->fresh());
}

}  // namespace tidemark::capture::postgres
