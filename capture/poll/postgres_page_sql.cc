#include "capture/poll/postgres_page_sql.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "capture/postgres/sql_text.h"

namespace tidemark::capture::poll {
namespace {

using postgres::QuoteLiteral;

constexpr char kMinusInfinity[] = "-infinity";

std::string Literal(const std::string& text, std::string_view type) {
  return fmt::format("{}::{}", QuoteLiteral(text), type);
}

std::string Tuple(const std::vector<std::string>& parts) {
  if (parts.size() == 1) return parts[0];
  return fmt::format("({})", fmt::join(parts, ", "));
}

std::vector<std::string> Prefixed(std::string_view alias, const std::vector<std::string>& names) {
  std::vector<std::string> prefixed;
  for (const std::string& name : names) prefixed.push_back(fmt::format("{}.{}", alias, name));
  return prefixed;
}

std::vector<std::string> KeyLiterals(const PageSql& table, const std::vector<std::string>& key) {
  std::vector<std::string> literals;
  for (size_t i = 0; i < table.key.size(); ++i) {
    literals.push_back(Literal(i < key.size() ? key[i] : "", table.key_types[i]));
  }
  return literals;
}

// One leg of a statement: the rows, or the tombstones.
struct Leg {
  std::string cursor;
  std::vector<std::string> key;

  std::vector<std::string> Place() const {
    std::vector<std::string> place = {cursor};
    place.insert(place.end(), key.begin(), key.end());
    return place;
  }
  std::string OrderBy(std::string_view direction = "") const {
    std::string order;
    for (const std::string& part : Place()) {
      order += fmt::format("{}{}{}", order.empty() ? "" : ", ", part, direction);
    }
    return order;
  }
};

Leg RowLeg(const PageSql& table) {
  return {.cursor = "r." + table.cursor, .key = Prefixed("r", table.key)};
}

// A key of a tombstone is of the type that the table's is of.
Leg TombstoneLeg(const PageSql& table, std::string_view alias = "x") {
  Leg leg{.cursor = fmt::format("{}.{}", alias, table.tombstones->cursor)};
  for (size_t i = 0; i < table.key.size(); ++i) {
    leg.key.push_back(
        fmt::format("{}.{}::{}", alias, table.tombstones->key[i], table.key_types[i]));
  }
  return leg;
}

std::string CursorLiteral(const PageSql& table, const std::string& text) {
  return Literal(text, SqlName(table.cursor_type));
}

std::string PlaceLiterals(const PageSql& table, const CursorPlace& place) {
  std::vector<std::string> parts = {CursorLiteral(table, place.cursor)};
  for (std::string& literal : KeyLiterals(table, place.key)) parts.push_back(std::move(literal));
  return Tuple(parts);
}

// The smallest value that is no place; empty where there is none.
std::string LowPoison(const PageSql& table) {
  if (KindOf(table.cursor_type) == CursorKind::kTime) return kMinusInfinity;
  if (table.cursor_type == CursorType::kNumeric && table.numeric_infinity) return "-Infinity";
  return "";
}

// The condition under which a cursor is too high to be a place; empty where none is.
std::string HighPoison(const PageSql& table, const WindowTexts& window, const std::string& cursor) {
  if (KindOf(table.cursor_type) == CursorKind::kTime) {
    return fmt::format("{} > {}", cursor, CursorLiteral(table, window.beyond));
  }
  if (table.cursor_type != CursorType::kNumeric) return "";
  return fmt::format("{} >= {}", cursor,
                     CursorLiteral(table, table.numeric_infinity ? "Infinity" : "NaN"));
}

std::string Poison(const PageSql& table, const WindowTexts& window, const std::string& cursor) {
  std::string poison = HighPoison(table, window, cursor);
  if (const std::string low = LowPoison(table); !low.empty()) {
    poison +=
        fmt::format("{}{} = {}", poison.empty() ? "" : " OR ", cursor, CursorLiteral(table, low));
  }
  return poison.empty() ? "false" : fmt::format("coalesce({}, false)", poison);
}

std::string AtOrBelow(const PageSql& table, const Leg& leg, const CursorPlace& bound) {
  if (bound.empty()) return "false";
  return fmt::format("coalesce({} <= {}, false)", Tuple(leg.Place()), PlaceLiterals(table, bound));
}

std::string Waits(const PageSql& table, const WindowTexts& window, const std::string& cursor) {
  if (window.fence.empty()) return "false";
  return fmt::format("coalesce({} >= {} AND NOT {}, false)", cursor,
                     CursorLiteral(table, window.fence), Poison(table, window, cursor));
}

// That the columns of a tombstone's key are those of a row.
std::string SameKey(const PageSql& table) {
  const Leg rows = RowLeg(table);
  const Leg tombstones = TombstoneLeg(table);
  std::string same;
  for (size_t i = 0; i < rows.key.size(); ++i) {
    same += fmt::format("{}{} = {}", i == 0 ? "" : " AND ", rows.key[i], tombstones.key[i]);
  }
  return same;
}

std::string Below(const PageSql& table, const WindowTexts& window, const std::string& cursor) {
  return window.fence.empty()
             ? ""
             : fmt::format(" AND {} < {}", cursor, CursorLiteral(table, window.fence));
}

// A row that is marked, or that a tombstone which is due buries.
std::string RowOverruled(const PageSql& table, const WindowTexts& window) {
  std::string overruled = table.deleted.empty() ? "false" : fmt::format("({})", table.deleted);
  if (!table.tombstones) return overruled;
  const std::string stamp = "x." + table.tombstones->cursor;
  return fmt::format("{} OR EXISTS (SELECT FROM {} x WHERE {} AND {} > r.{}{})", overruled,
                     table.tombstones->from, SameKey(table), stamp, table.cursor,
                     Below(table, window, stamp));
}

// Of the rows of the window, or of the tombstones of it.
std::string WindowCondition(const PageSql& table, const WindowTexts& window, const Leg& leg,
                            const CursorPlace& after, const std::string& lower,
                            const CursorPlace& bound) {
  std::string where;
  if (!after.empty()) {
    where = fmt::format("{} > {}", Tuple(leg.Place()), PlaceLiterals(table, after));
  } else if (window.behind_bound && !bound.empty()) {
    where = fmt::format("{} > {}", Tuple(leg.Place()), PlaceLiterals(table, bound));
  } else if (!lower.empty()) {
    where = fmt::format("{} >= {}", leg.cursor, CursorLiteral(table, lower));
  } else if (const std::string low = LowPoison(table); !low.empty()) {
    where = fmt::format("{} > {}", leg.cursor, CursorLiteral(table, low));
  } else {
    where = fmt::format("{} IS NOT NULL", leg.cursor);
  }
  where += Below(table, window, leg.cursor);
  if (table.cursor_type == CursorType::kNumeric) {
    where += fmt::format(" AND {} < {}", leg.cursor,
                         CursorLiteral(table, table.numeric_infinity ? "Infinity" : "NaN"));
  }
  return where;
}

// Keys that are told apart as text are different keys, whatever the source says of them.
std::string LeftToYounger(const PageSql& table, const WindowTexts& window, const Leg& leg) {
  if (!table.tombstones) return "false";
  const Leg younger = TombstoneLeg(table, "y");
  std::string same;
  for (size_t i = 0; i < leg.key.size(); ++i) {
    same += fmt::format("{0} = {1} AND ({0})::text COLLATE \"C\" = ({1})::text COLLATE \"C\" AND ",
                        younger.key[i], leg.key[i]);
  }
  return fmt::format(
      "EXISTS (SELECT FROM {} y WHERE {}{} > {} AND {})", table.tombstones->from, same,
      younger.cursor, leg.cursor,
      WindowCondition(table, window, younger, {}, window.tombstone_lower, window.tombstone_bound));
}

std::string RowFacts(const PageSql& table, const WindowTexts& window) {
  const Leg leg = RowLeg(table);
  return fmt::format(
      "'r' AS kind, {}::text AS at, {} AS below, {} AS waits, {} AS poison, ({}) AS gone",
      leg.cursor, AtOrBelow(table, leg, window.bound), Waits(table, window, leg.cursor),
      Poison(table, window, leg.cursor), RowOverruled(table, window));
}

std::string RowKeys(const PageSql& table) {
  const Leg leg = RowLeg(table);
  std::string keys;
  for (size_t i = 0; i < leg.key.size(); ++i) keys += fmt::format(", {} AS key{}", leg.key[i], i);
  return keys;
}

std::string RowColumns(const PageSql& table) {
  return fmt::format("{}", fmt::join(Prefixed("r", table.columns), ", "));
}

std::string BehindKey(const PageSql& table, const std::vector<std::string>& key) {
  if (key.empty()) return "";
  return fmt::format("{} > {}", Tuple(Prefixed("r", table.key)), Tuple(KeyLiterals(table, key)));
}

std::string WithKeys(const PageSql& table, const std::vector<std::vector<std::string>>& keys) {
  std::vector<std::string> tuples;
  for (const std::vector<std::string>& key : keys) tuples.push_back(Tuple(KeyLiterals(table, key)));
  // As in capture/postgres/key_condition.cc: a list of tuples would be tried on each row one by
  // one.
  return fmt::format("{} IN ({}{})", Tuple(Prefixed("r", table.key)),
                     table.key.size() > 1 ? "VALUES " : "", fmt::join(tuples, ", "));
}

std::string And(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return fmt::format("{}{}", a, b);
  return fmt::format("{} AND {}", a, b);
}

std::string Behind(const PageSql& table, const Leg& leg, const CursorPlace& after) {
  return after.empty() ? ""
                       : fmt::format("{} > {}", Tuple(leg.Place()), PlaceLiterals(table, after));
}

std::string PartCondition(const PageSql& table, const WindowTexts& window, const PageOrder& order) {
  const Leg leg = RowLeg(table);
  using Part = PageOrder::Part;
  switch (order.part) {
    case Part::kWindow:
      return WindowCondition(table, window, leg, order.after, window.lower, window.bound);
    case Part::kPoisonLow: {
      const std::string low = LowPoison(table);
      if (low.empty()) return "false";
      return And(fmt::format("{} = {}", leg.cursor, CursorLiteral(table, low)),
                 Behind(table, leg, order.after));
    }
    case Part::kPoisonHigh: {
      const std::string high = HighPoison(table, window, leg.cursor);
      return high.empty() ? "false" : And(high, Behind(table, leg, order.after));
    }
    case Part::kNulls:
      return And(leg.cursor + " IS NULL", BehindKey(table, order.after.key));
    case Part::kByKey:
      return BehindKey(table, order.after.key);
    case Part::kKeys:
    case Part::kKeysAlone:
      return WithKeys(table, order.keys);
  }
  return "false";
}

bool OrderedByKey(PageOrder::Part part) {
  return part == PageOrder::Part::kNulls || part == PageOrder::Part::kByKey ||
         part == PageOrder::Part::kKeys;
}

// A line as of a tombstone. Rows may be wide, and many keys are asked for at a time.
std::string KeysAloneSql(const PageSql& table, const PageOrder& order) {
  return fmt::format(
      "SELECT 'd', NULL, false, false, false, false, false, {}, NULL FROM {} r WHERE {}",
      fmt::join(Prefixed("r", table.key), ", "), table.from, WithKeys(table, order.keys));
}

std::string Where(const std::string& condition) {
  return condition.empty() ? "" : " WHERE " + condition;
}

// Of the lines of both legs, merged, those that tell a delete: rows that are buried, and tombstones
// that no row overrules. Most rows are none, and are not looked up among the tombstones once more.
std::string MergedLeftToYounger(const PageSql& table, const WindowTexts& window) {
  Leg merged{.cursor = "u.place0"};
  for (size_t i = 0; i < table.key.size(); ++i) {
    merged.key.push_back(fmt::format("u.place{}", i + 1));
  }
  return fmt::format("CASE WHEN gone = (kind = 'r') THEN {} ELSE false END",
                     LeftToYounger(table, window, merged));
}

// Both legs by their own index, merged by the source in the order of the stamps.
std::string MergedSql(const PageSql& table, const WindowTexts& window, const PageOrder& order) {
  const Leg rows = RowLeg(table);
  const Leg dead = TombstoneLeg(table);
  std::string places;
  std::string dead_places;
  std::string by;
  std::string shown = fmt::format("kind, at, below, waits, poison, gone, {} AS later",
                                  MergedLeftToYounger(table, window));
  for (size_t i = 0; i < rows.Place().size(); ++i) {
    places += fmt::format(", {} AS place{}", rows.Place()[i], i);
    dead_places += fmt::format(", {}", dead.Place()[i]);
    by += fmt::format("place{}, ", i);
  }
  std::string dead_keys;
  for (size_t i = 0; i < rows.key.size(); ++i) {
    shown += fmt::format(", key{}", i);
    dead_keys += fmt::format(", {}", dead.key[i]);
  }
  std::string columns;
  std::string nulls;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    columns += fmt::format(", r.{} AS column{}", table.columns[i], i);
    nulls += fmt::format(", NULL::{}", table.column_types[i]);
    shown += fmt::format(", column{}", i);
  }
  const std::string row_leg =
      fmt::format("(SELECT {}{}{}{} FROM {} r WHERE {} ORDER BY {} LIMIT {})",
                  RowFacts(table, window), RowKeys(table), places, columns, table.from,
                  PartCondition(table, window, order), rows.OrderBy(), order.rows_max);
  const std::string dead_leg = fmt::format(
      "(SELECT 'd', {}::text, {}, false, false, EXISTS (SELECT FROM {} r WHERE {} AND (r.{} >= {} "
      "OR r.{} IS NULL)){}{}{} FROM {} x WHERE {} ORDER BY {} LIMIT {})",
      dead.cursor, AtOrBelow(table, dead, window.tombstone_bound), table.from, SameKey(table),
      table.cursor, dead.cursor, table.cursor, dead_keys, dead_places, nulls,
      table.tombstones->from,
      WindowCondition(table, window, dead, order.after_tombstone, window.tombstone_lower,
                      window.tombstone_bound),
      dead.OrderBy(), order.rows_max);
  return fmt::format("SELECT {} FROM ({} UNION ALL {}) u ORDER BY {}kind LIMIT {}", shown, row_leg,
                     dead_leg, by, order.rows_max);
}

std::string Microseconds(absl::Duration duration) {
  return fmt::format("'{} microseconds'::interval", absl::ToInt64Microseconds(duration));
}

int64_t Days(absl::Duration duration) {
  return static_cast<int64_t>(std::ceil(absl::FDivDuration(duration, absl::Hours(24))));
}

std::string LeastOf(CursorType type) {
  switch (type) {
    case CursorType::kSmallint:
      return "-32768";
    case CursorType::kInteger:
      return "-2147483648";
    case CursorType::kBigint:
      return "-9223372036854775808";
    default:
      return "";
  }
}

std::string LowerSql(const PageSql& table, const CursorPlace& bound, const WindowRules& rules) {
  if (bound.empty()) return "NULL";
  const std::string from = CursorLiteral(table, bound.cursor);
  const absl::Duration overlap = std::max(rules.overlap, rules.unit);
  if (table.cursor_type == CursorType::kDate) return fmt::format("{} - {}", from, Days(overlap));
  if (KindOf(table.cursor_type) == CursorKind::kTime) {
    return fmt::format("{} - {}", from, Microseconds(overlap));
  }
  const std::string lower = fmt::format("{}::numeric - {}", from, rules.overlap_values);
  const std::string least = LeastOf(table.cursor_type);
  if (least.empty()) return lower;
  return fmt::format("greatest({}, {})::{}", lower, least, SqlName(table.cursor_type));
}

std::string ClockSql(const PageSql& table, const WindowRules& rules) {
  const std::string clock = Literal(rules.clock, "timestamptz");
  if (table.cursor_type == CursorType::kTimestampTz) return clock;
  return fmt::format("({} AT TIME ZONE 'UTC')", clock);
}

}  // namespace

std::optional<CursorType> CursorTypeOf(uint32_t type_oid) {
  switch (type_oid) {
    case 20:
      return CursorType::kBigint;
    case 21:
      return CursorType::kSmallint;
    case 23:
      return CursorType::kInteger;
    case 1082:
      return CursorType::kDate;
    case 1114:
      return CursorType::kTimestamp;
    case 1184:
      return CursorType::kTimestampTz;
    case 1700:
      return CursorType::kNumeric;
    default:
      return std::nullopt;
  }
}

std::string SqlName(CursorType type) {
  switch (type) {
    case CursorType::kTimestampTz:
      return "timestamptz";
    case CursorType::kTimestamp:
      return "timestamp";
    case CursorType::kDate:
      return "date";
    case CursorType::kSmallint:
      return "smallint";
    case CursorType::kInteger:
      return "integer";
    case CursorType::kBigint:
      return "bigint";
    case CursorType::kNumeric:
      return "numeric";
  }
  return "";
}

CursorKind KindOf(CursorType type) {
  switch (type) {
    case CursorType::kTimestampTz:
    case CursorType::kTimestamp:
    case CursorType::kDate:
      return CursorKind::kTime;
    default:
      return CursorKind::kNumber;
  }
}

absl::Duration UnitOf(CursorType type, int32_t typmod) {
  if (type == CursorType::kDate) return absl::Hours(24);
  if (KindOf(type) != CursorKind::kTime) return absl::ZeroDuration();
  absl::Duration unit = absl::Microseconds(1);
  for (int32_t digits = 6; typmod >= 0 && digits > typmod; --digits) unit *= 10;
  return unit;
}

bool ReadsBehindBoundOnly(CursorType type, const WindowRules& rules) {
  if (KindOf(type) == CursorKind::kNumber) return rules.overlap_values == 0;
  return rules.overlap <= absl::ZeroDuration() && rules.unit <= absl::Microseconds(1);
}

std::string WindowSql(const PageSql& table, const CursorPlace& bound,
                      const CursorPlace& tombstone_bound, const WindowRules& rules) {
  std::string fence = "NULL";
  std::string beyond = "NULL";
  if (KindOf(table.cursor_type) == CursorKind::kTime) {
    fence = fmt::format("{} - {}", ClockSql(table, rules), Microseconds(rules.delay));
    beyond = fmt::format("{} + {}", ClockSql(table, rules), Microseconds(rules.future_tolerance));
    if (table.cursor_type == CursorType::kDate) {
      // Today's rows are read today.
      fence = fmt::format("({})::date + 1", fence);
      beyond = fmt::format("({})::date", beyond);
    }
  }
  return fmt::format("SELECT ({})::text, ({})::text, ({})::text, ({})::text",
                     LowerSql(table, bound, rules), LowerSql(table, tombstone_bound, rules), fence,
                     beyond);
}

std::string PageCopySql(const PageSql& table, const WindowTexts& window, const PageOrder& order) {
  const Leg leg = RowLeg(table);
  if (order.part == PageOrder::Part::kWindow && table.tombstones) {
    return fmt::format("COPY ({}) TO STDOUT", MergedSql(table, window, order));
  }
  if (order.part == PageOrder::Part::kKeysAlone) {
    return fmt::format("COPY ({}) TO STDOUT", KeysAloneSql(table, order));
  }
  const std::string by =
      OrderedByKey(order.part) ? fmt::format("{}", fmt::join(leg.key, ", ")) : leg.OrderBy();
  const uint64_t limit =
      order.part == PageOrder::Part::kKeys ? order.keys.size() : uint64_t{order.rows_max};
  // Where all rows are compared, nobody reads the window.
  const std::string later =
      order.part == PageOrder::Part::kPoisonLow ? LeftToYounger(table, window, leg) : "false";
  return fmt::format(
      "COPY (SELECT {}, {} AS later{}, {} FROM {} r{} ORDER BY {} LIMIT {}) TO STDOUT",
      RowFacts(table, window), later, RowKeys(table), RowColumns(table), table.from,
      Where(PartCondition(table, window, order)), by, limit);
}

std::string TopSql(const PageSql& table, const WindowTexts& window, bool below_fence) {
  const Leg leg = RowLeg(table);
  WindowTexts everything = window;
  everything.lower.clear();
  everything.behind_bound = false;
  if (!below_fence) everything.fence.clear();
  std::string where = WindowCondition(table, everything, leg, {}, "", {});
  if (KindOf(table.cursor_type) == CursorKind::kTime) {
    where += fmt::format(" AND {} <= {}", leg.cursor, CursorLiteral(table, window.beyond));
  }
  const std::string lower = window.lower.empty() ? "NULL" : CursorLiteral(table, window.lower);
  std::string keys;
  for (const std::string& key : leg.key) keys += fmt::format(", {}", key);
  return fmt::format("SELECT {0}::text, {0} < {1}{2} FROM {3} r WHERE {4} ORDER BY {5} LIMIT 1",
                     leg.cursor, lower, keys, table.from, where, leg.OrderBy(" DESC"));
}

std::string TombstoneTopSql(const PageSql& table, const WindowTexts& window) {
  const Leg leg = TombstoneLeg(table);
  WindowTexts everything = window;
  everything.behind_bound = false;
  std::string keys;
  for (const std::string& key : leg.key) keys += fmt::format(", {}", key);
  return fmt::format("SELECT {0}::text, false{1} FROM {2} x WHERE {3} ORDER BY {4} LIMIT 1",
                     leg.cursor, keys, table.tombstones->from,
                     WindowCondition(table, everything, leg, {}, "", {}), leg.OrderBy(" DESC"));
}

std::string NullCountSql(const PageSql& table, uint64_t count_max) {
  return fmt::format("SELECT count(*) FROM (SELECT FROM {} r WHERE r.{} IS NULL LIMIT {}) n",
                     table.from, table.cursor, count_max);
}

std::string PlanSql(const PageSql& table) {
  const Leg leg = RowLeg(table);
  std::vector<std::string> unknown = {fmt::format("(SELECT NULL::{})", SqlName(table.cursor_type))};
  for (const std::string& type : table.key_types) {
    unknown.push_back(fmt::format("(SELECT NULL::{})", type));
  }
  return fmt::format("EXPLAIN (COSTS OFF) SELECT {} FROM {} r WHERE {} > {} ORDER BY {} LIMIT 100",
                     RowColumns(table), table.from, Tuple(leg.Place()), Tuple(unknown),
                     leg.OrderBy());
}

bool PlanUsesIndex(const std::vector<std::string>& plan) {
  bool entered = false;
  for (std::string_view line : plan) {
    line.remove_prefix(std::min(line.find_first_not_of(" ->"), line.size()));
    if (line.starts_with("Index Cond:")) entered = true;
    for (std::string_view node : {"Sort", "Incremental Sort", "Seq Scan", "Bitmap"}) {
      if (line.starts_with(node) && !line.starts_with("Sort Key")) return false;
    }
  }
  return entered;
}

}  // namespace tidemark::capture::poll
