#include "capture/postgres/table_selection.h"

#include "capture/postgres/publication.h"

namespace tidemark::capture::postgres {

TableSelection::TableSelection(std::vector<TablePattern> configured)
    : configured_(std::move(configured)) {}

void TableSelection::ForgetChoices() {
  added_.clear();
  removed_.clear();
}

void TableSelection::Choose(const std::string& schema, const std::string& table,
                            v1::TableChoice choice) {
  const Name name(schema, table);
  added_.erase(name);
  removed_.erase(name);
  if (choice == v1::TABLE_CHOICE_ADDED) added_.insert(name);
  if (choice == v1::TABLE_CHOICE_REMOVED) removed_.insert(name);
}

bool TableSelection::Wants(std::string_view schema, std::string_view table) const {
  const Name name(schema, table);
  if (removed_.count(name) > 0) return false;
  return added_.count(name) > 0 || MatchesAny(configured_, schema, table);
}

std::vector<TablePattern> TableSelection::patterns() const {
  std::vector<TablePattern> patterns = configured_;
  for (const auto& [schema, table] : added_) {
    // The text of a name always parses.
    if (auto exact = TablePattern::Parse(TableNameText(schema, table)); exact.ok()) {
      patterns.push_back(*std::move(exact));
    }
  }
  return patterns;
}

}  // namespace tidemark::capture::postgres
