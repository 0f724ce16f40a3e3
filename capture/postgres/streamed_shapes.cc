#include "capture/postgres/streamed_shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "capture/postgres/table_sighting.h"

namespace tidemark::capture::postgres {

StreamedShapes::Shape StreamedShapes::ShapeOf(const v1::PostgresTableFacts& facts) {
  Shape shape;
  const auto& published = facts.published_columns();
  for (const v1::PostgresColumnFacts& column : facts.columns()) {
    const bool is_sent = published.empty() || std::find(published.begin(), published.end(),
                                                        column.name()) != published.end();
    if (is_sent) shape[column.name()] = column.type_oid();
  }
  return shape;
}

// `shape` came after all that is known.
void StreamedShapes::Compare(const Shape& shape, History* history) {
  if (!history->last) return;
  const Shape& last = *history->last;
  std::string came;
  std::string went;
  for (const auto& [name, type] : shape) {
    const auto before = last.find(name);
    if (before == last.end()) came = name;
    if (history->gone.count(name) > 0) {
      history->cause = fmt::format("column {} was another one meanwhile", name);
    } else if (before != last.end() && !SaysTheSame(before->second, type)) {
      history->cause = fmt::format("column {} had another type meanwhile", name);
    }
  }
  for (const auto& [name, type] : last) {
    if (shape.count(name) > 0) continue;
    history->gone.insert(name);
    went = name;
  }
  // What no look knew of before either.
  if (!came.empty() && !went.empty()) {
    history->cause = fmt::format("column {} may have been renamed to {}", went, came);
  }
}

void StreamedShapes::Announced(const RelationDescription& table, Lsn commit) {
  news_ = true;
  History& history = histories_[{table.schema_name, table.table_name}];
  if (history.looked_at != 0 && commit > history.looked_at) {
    history.last = std::move(history.looked);
    history.looked_at = 0;
  }
  Shape shape;
  for (const DescribedColumn& column : table.columns) shape[column.name] = column.type_oid;
  Compare(shape, &history);
  history.last = std::move(shape);
  history.announced = true;
}

void StreamedShapes::PartStreamed(const Name& root, uint32_t part_oid, Lsn commit) {
  const auto history = histories_.find(root);
  if (history != histories_.end() && commit < history->second.read_from) return;
  parts_.emplace(root, part_oid);
}

std::string StreamedShapes::Seen(const Name& name, const v1::PostgresTableFacts& facts, Lsn at) {
  History& history = histories_[name];
  Shape shape = ShapeOf(facts);
  if (history.announced) Compare(shape, &history);
  history.looked = std::move(shape);
  history.looked_at = at;
  history.gone.clear();
  history.announced = false;
  return std::exchange(history.cause, {});
}

}  // namespace tidemark::capture::postgres
