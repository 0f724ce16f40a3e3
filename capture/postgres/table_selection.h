// Which tables a feed captures: those of the configuration, but for what was chosen while it ran.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/table_name.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

// Thread rule: one thread at a time.
class TableSelection {
 public:
  explicit TableSelection(std::vector<TablePattern> configured);

  // The configuration names other tables; what was chosen stands.
  void Configure(std::vector<TablePattern> configured) { configured_ = std::move(configured); }
  const std::vector<TablePattern>& configured() const { return configured_; }
  void ForgetChoices();
  void Choose(const std::string& schema, const std::string& table, v1::TableChoice choice);
  bool Wants(std::string_view schema, std::string_view table) const;
  // Every wanted table fits one of these; a removed one may fit as well.
  std::vector<TablePattern> patterns() const;

 private:
  using Name = std::pair<std::string, std::string>;

  std::vector<TablePattern> configured_;
  std::set<Name> added_;
  std::set<Name> removed_;
};

}  // namespace tidemark::capture::postgres
