#include "capture/poll/key_scan.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace tidemark::capture::poll {

ScanVerdict VerdictOf(const PolledRow& row, ToldAs told_as, NullCursors nulls) {
  if (!row.cursor && nulls != NullCursors::kInclude) return ScanVerdict::kLeftOut;
  if (told_as == ToldAs::kNothing) return ScanVerdict::kSame;
  if (row.waits) return ScanVerdict::kPending;
  switch (told_as) {
    case ToldAs::kInsert:
      return ScanVerdict::kMissing;
    case ToldAs::kUpdate:
      return ScanVerdict::kDifferent;
    default:
      return ScanVerdict::kExtra;
  }
}

absl::StatusOr<ChunkScan::Chunk> ChunkScan::Rows(
    size_t table, const TableSettings& settings, const v1::TableSchema& schema,
    const PageOrder& order, const std::function<void(const ScannedRow&)>& take) {
  absl::StatusOr<RowPage> page = engine_.ReadPage(table, order);
  if (!page.ok()) return page.status();
  Chunk chunk{.rows = page->rows.size(), .at_end = page->at_end};
  for (const PolledRow& row : page->rows) {
    absl::StatusOr<JudgedRow> judged = comparison_.Judge(schema, row);
    if (!judged.ok()) return judged.status();
    take({VerdictOf(row, judged->told_as, settings.null_cursors), row, *judged});
    chunk.last_key = row.key;
  }
  return chunk;
}

absl::StatusOr<std::vector<KnownKey>> ChunkScan::Gone(size_t table, const v1::TableSchema& schema,
                                                      const std::vector<KnownKey>& asked) {
  std::vector<KnownKey> gone;
  if (asked.empty()) return gone;
  PageOrder order{.part = PageOrder::Part::kKeysAlone};
  for (const KnownKey& key : asked) order.keys.push_back(key.texts);
  absl::StatusOr<RowPage> page = engine_.ReadPage(table, order);
  if (!page.ok()) return page.status();
  absl::flat_hash_set<std::string> there;
  for (const PolledRow& row : page->rows) {
    absl::StatusOr<std::string> key = comparison_.KeyOf(row);
    if (!key.ok()) return key.status();
    there.insert(*std::move(key));
  }
  for (const KnownKey& key : asked) {
    if (there.contains(key.key)) continue;
    // It may have been told meanwhile.
    absl::StatusOr<bool> known = comparison_.IsKnown(schema, key.key);
    if (!known.ok()) return known.status();
    if (*known) gone.push_back(key);
  }
  return gone;
}

bool ScanIsDue(const PollSettings& settings, const v1::KeyScanState& scan, int64_t clock_us) {
  if (scan.running() || !settings.scans || !settings.scan_period) return false;
  return clock_us - scan.finished_us() >= absl::ToInt64Microseconds(*settings.scan_period);
}

void BeginScan(bool ordered, int64_t clock_us, v1::KeyScanState* scan) {
  const int64_t finished_us = scan->finished_us();
  scan->Clear();
  scan->set_running(true);
  scan->set_ordered(ordered);
  scan->set_started_us(clock_us);
  scan->set_finished_us(finished_us);
}

absl::StatusOr<size_t> KeyScan::Step(size_t table, const TableSettings& settings,
                                     const v1::TableSchema& schema, uint32_t rows_max,
                                     int64_t clock_us, v1::PolledTableState* state,
                                     ChangeSink* sink) {
  v1::KeyScanState* scan = state->mutable_scan();
  if (scan->started_us() == 0) scan->set_started_us(clock_us);
  if (scan->removing()) return Remove(table, schema, rows_max, clock_us, state, sink);
  PageOrder order{.part = PageOrder::Part::kByKey, .rows_max = rows_max};
  order.after.key.assign(scan->after_key().begin(), scan->after_key().end());
  absl::StatusOr<ChunkScan::Chunk> chunk =
      chunks_.Rows(table, settings, schema, order, [&](const ScannedRow& one) {
        if (one.verdict == ScanVerdict::kMissing) scan->set_missing(scan->missing() + 1);
        if (one.verdict == ScanVerdict::kDifferent) scan->set_different(scan->different() + 1);
        if (one.verdict == ScanVerdict::kExtra) scan->set_extra(scan->extra() + 1);
        if (one.verdict == ScanVerdict::kPending || one.verdict == ScanVerdict::kLeftOut) return;
        sink->Add(schema, one.judged.told_as, one.row);
      });
  if (!chunk.ok()) return chunk.status();
  scan->set_rows_read(scan->rows_read() + chunk->rows);
  if (chunk->rows > 0) {
    scan->mutable_after_key()->Assign(chunk->last_key.begin(), chunk->last_key.end());
  }
  if (chunk->at_end) {
    scan->set_removing(true);
    scan->clear_after_key();
    Forget();
  }
  return chunk->rows;
}

absl::StatusOr<size_t> KeyScan::Remove(size_t table, const v1::TableSchema& schema,
                                       uint32_t rows_max, int64_t clock_us,
                                       v1::PolledTableState* state, ChangeSink* sink) {
  v1::KeyScanState* scan = state->mutable_scan();
  if (keys_.empty()) {
    absl::StatusOr<std::deque<KnownKey>> keys =
        comparison_.LoadKeys(schema, scan->removing_from(), engine_);
    if (!keys.ok()) return keys.status();
    keys_ = *std::move(keys);
  }
  if (keys_.empty()) {
    scan->set_running(false);
    scan->set_removing(false);
    scan->clear_removing_from();
    scan->set_finished_us(clock_us);
    return 0;
  }
  const size_t asked_max = std::min<size_t>(kKeysAskedMax, rows_max);
  std::vector<KnownKey> asked;
  while (!keys_.empty() && asked.size() < asked_max) {
    asked.push_back(std::move(keys_.front()));
    keys_.pop_front();
  }
  absl::StatusOr<std::vector<KnownKey>> gone = chunks_.Gone(table, schema, asked);
  if (!gone.ok()) return gone.status();
  for (const KnownKey& key : *gone) sink->AddDelete(schema, key.image);
  scan->set_extra(scan->extra() + gone->size());
  scan->set_removing_from(KeyBehind(asked.back().key));
  return asked.size();
}

}  // namespace tidemark::capture::poll
