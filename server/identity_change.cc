#include "server/identity_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark {
namespace {

std::vector<std::string> Names(const v1::TableSchema& schema) {
  std::vector<std::string> names;
  for (const uint32_t column : schema.key_columns()) {
    names.push_back(schema.columns(static_cast<int>(column)).name());
  }
  return names;
}

bool SameType(const v1::Column& a, const v1::Column& b) {
  return a.form() == b.form() && a.source_type() == b.source_type();
}

// A column is known by its place where nothing but names differs.
bool OnlyRenamed(const v1::TableSchema& before, const v1::TableSchema& after) {
  if (before.columns_size() != after.columns_size()) return false;
  for (int i = 0; i < before.columns_size(); ++i) {
    if (!SameType(before.columns(i), after.columns(i))) return false;
  }
  return std::equal(before.key_columns().begin(), before.key_columns().end(),
                    after.key_columns().begin(), after.key_columns().end());
}

// The form decides what a key's bytes are; a longer varchar has the same ones.
bool SameForms(const v1::TableSchema& before, const v1::TableSchema& after) {
  for (int i = 0; i < before.key_columns_size(); ++i) {
    const auto& a = before.columns(static_cast<int>(before.key_columns(i)));
    const auto& b = after.columns(static_cast<int>(after.key_columns(i)));
    if (a.form() != b.form()) return false;
  }
  return true;
}

}  // namespace

std::string IdentityText(const v1::TableSchema& schema) {
  return schema.key_columns().empty() ? "none"
                                      : fmt::format("({})", fmt::join(Names(schema), ", "));
}

std::optional<std::string> IdentityChange(const v1::TableSchema& before,
                                          const v1::TableSchema& after) {
  if (Names(before) == Names(after) && SameForms(before, after)) return std::nullopt;
  if (OnlyRenamed(before, after)) return std::nullopt;
  return fmt::format("from {} to {}", IdentityText(before), IdentityText(after));
}

v1::LostTable IdentityLost(const v1::TableSchema& schema, std::string_view change, bool had_rows) {
  v1::LostTable lost;
  lost.set_schema_name(schema.schema_name());
  lost.set_table_name(schema.table_name());
  lost.set_reason(std::string(reason::kIdentityChanged));
  lost.set_had_rows(had_rows);
  lost.set_message(fmt::format(
      "the identity of the rows of {} changed {}: {}. Its changes are captured as before; no "
      "bootstrap has the table, and what its updates leave out stays absent, until it is read "
      "again. Do that, or list it in rows_off",
      TableNameText(schema.schema_name(), schema.table_name()), change,
      had_rows ? "its current rows were kept by the old one and are gone"
               : "there are no current rows to keep by the new one"));
  return lost;
}

}  // namespace tidemark
