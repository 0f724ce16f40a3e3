// The statements by which rows of a polled table are read on PostgreSQL. Pure; safe from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_settings.h"

namespace tidemark::capture::poll {

enum class CursorType { kTimestampTz, kTimestamp, kDate, kSmallint, kInteger, kBigint, kNumeric };

// Nothing for a type whose values are no places in an order that every write raises, or that not
// every client compares alike: times of a day, floats, text, intervals, …
std::optional<CursorType> CursorTypeOf(uint32_t type_oid);
std::string SqlName(CursorType type);
CursorKind KindOf(CursorType type);
// How far apart two values are at least: `typmod` as the catalog has it. Zero for numbers.
absl::Duration UnitOf(CursorType type, int32_t typmod);

// What the statements of one table are made of. Names are quoted, as they stand behind "r." or
// "x.".
struct PageSql {
  // As it stands behind FROM; rows are called r.
  std::string from;
  std::string cursor;
  CursorType cursor_type = CursorType::kTimestampTz;
  // An infinite numeric is a value since PostgreSQL 14.
  bool numeric_infinity = true;
  std::vector<std::string> key;
  std::vector<std::string> key_types;
  std::vector<std::string> columns;
  std::vector<std::string> column_types;
  // Empty: no row is marked as deleted. Else a condition on r.
  std::string deleted;
  // Entries are called x; the key is in the order of `key`.
  struct Tombstones {
    std::string from;
    std::string cursor;
    std::vector<std::string> key;
  };
  std::optional<Tombstones> tombstones;
};

// Where a poll reads from and to, as text of the cursor's type; empty: no limit.
struct WindowTexts {
  CursorPlace bound;
  CursorPlace tombstone_bound;
  std::string lower;
  std::string tombstone_lower;
  // Rows at or above wait.
  std::string fence;
  // Rows above are poison.
  std::string beyond;
  // Nothing at or below the bound is read again.
  bool behind_bound = false;
};

struct WindowRules {
  // Text of the source's clock, with its zone. What says no zone is taken for UTC, whatever the
  // zone of a role or database, which may change.
  std::string clock;
  absl::Duration delay;
  absl::Duration overlap;
  uint64_t overlap_values = 0;
  absl::Duration future_tolerance;
  // Of the cursor column.
  absl::Duration unit;
};

// Whether rows at or below the bound are read again at all. A cursor that is coarser than the
// writes is read again from one unit before, whatever the overlap.
bool ReadsBehindBoundOnly(CursorType type, const WindowRules& rules);
// One row: lower, tombstone_lower, fence, beyond.
std::string WindowSql(const PageSql& table, const CursorPlace& bound,
                      const CursorPlace& tombstone_bound, const WindowRules& rules);

// The columns of a line, before those of the table: r or d, cursor, below_bound, waits, poison,
// overruled, left_to_younger, and one for each column of the key.
inline constexpr size_t kLineFacts = 7;

// COPY … TO STDOUT.
std::string PageCopySql(const PageSql& table, const WindowTexts& window, const PageOrder& order);
// The cursor and the key of the highest row that is no poison, below the fence or anywhere, and
// whether it is below the window (NULL where that has no beginning).
std::string TopSql(const PageSql& table, const WindowTexts& window, bool below_fence);
std::string TombstoneTopSql(const PageSql& table, const WindowTexts& window);
std::string NullCountSql(const PageSql& table, uint64_t count_max);

// The statement of a page with what is not known before it runs in place of values, to be explained
// with all plans but that by the index made dear.
std::string PlanSql(const PageSql& table);
// Whether the plan, as lines of text, enters an index by the predicate, and sorts nothing.
bool PlanUsesIndex(const std::vector<std::string>& plan);

}  // namespace tidemark::capture::poll
