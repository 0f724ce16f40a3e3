#include "server/gap_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "proto/position.h"
#include "proto/reason.h"
#include "proto/table_name.h"
#include "server/stop_order.h"

namespace tidemark {

std::vector<v1::LostTable> RowsBehindGap(const store::FeedStore& store, const v1::GapRecord& gap) {
  std::vector<v1::LostTable> lost;
  const std::vector<v1::TableState> states = store.table_states();
  for (const v1::TableSchema& schema : store.CurrentSchemas()) {
    if (!store.KeepsRows(schema)) continue;
    const bool removed = std::any_of(states.begin(), states.end(), [&](const auto& state) {
      return state.schema_name() == schema.schema_name() &&
             state.table_name() == schema.table_name() &&
             state.choice() == v1::TABLE_CHOICE_REMOVED;
    });
    // It holds what it held when it was removed, and does not claim more.
    if (removed) continue;
    v1::LostTable& table = lost.emplace_back();
    table.set_schema_name(schema.schema_name());
    table.set_table_name(schema.table_name());
    table.set_had_rows(true);
    table.set_reason(std::string(reason::kChangesMissing));
    const std::string name = TableNameText(schema.schema_name(), schema.table_name());
    table.set_message(fmt::format(
        "the feed went on behind a gap ({}), and changes of {} may be missing there: its current "
        "rows are given up, since they may be wrong. Its changes are captured, with absent columns "
        "where the source leaves some out; no bootstrap has the table. Read it again with tidemark "
        "table read",
        gap.reason(), name));
  }
  return lost;
}

v1::StopRecord StopBehindGap(v1::StopRecord stop, uint32_t generation) {
  const auto bound = Position::FromBytes(stop.bound());
  if (!bound.ok()) return stop;
  const auto order = ParseStopOrder(stop.requested());
  if (!order.ok() || order->kind != StopOrder::Kind::kNative) {
    stop.clear_bound();
    return stop;
  }
  stop.set_bound(std::string(Position::Of(generation, bound->engine(), 0).bytes()));
  return stop;
}

}  // namespace tidemark
