#include "store/absent_columns.h"

#include <algorithm>
#include <optional>

namespace tidemark::store {
namespace {

bool SameType(const v1::Column& a, const v1::Column& b) {
  return a.form() == b.form() && a.source_type() == b.source_type();
}

// Or columns were dropped and others of just these types added, of which none can be absent in a
// row that was not written since.
bool OnlyRenamed(const v1::TableSchema& old_schema, const v1::TableSchema& schema) {
  return old_schema.columns_size() == schema.columns_size() &&
         std::equal(schema.columns().begin(), schema.columns().end(), old_schema.columns().begin(),
                    SameType);
}

// Which column of the old schema is column `i` of the present one. Columns move to the front only,
// when one before them is dropped: what stands further back than it did took over the name.
std::optional<size_t> OldColumn(const v1::TableSchema& old_schema, const v1::TableSchema& schema,
                                int i, bool only_renamed) {
  const v1::Column& wanted = schema.columns(i);
  for (int c = i; c < old_schema.columns_size(); ++c) {
    if (old_schema.columns(c).name() != wanted.name()) continue;
    return SameType(old_schema.columns(c), wanted) ? std::optional<size_t>(c) : std::nullopt;
  }
  return only_renamed ? std::optional<size_t>(i) : std::nullopt;
}

}  // namespace

bool HasAbsent(const std::vector<std::string_view>& values) {
  return std::any_of(values.begin(), values.end(), [](std::string_view v) { return v.empty(); });
}

void FillAbsent(const v1::TableSchema& old_schema, const std::vector<std::string_view>& old_values,
                const v1::TableSchema& schema, std::vector<std::string_view>* values) {
  const bool only_renamed = OnlyRenamed(old_schema, schema);
  for (size_t i = 0; i < values->size() && i < static_cast<size_t>(schema.columns_size()); ++i) {
    if (!(*values)[i].empty()) continue;
    const auto old = OldColumn(old_schema, schema, static_cast<int>(i), only_renamed);
    if (old && *old < old_values.size()) (*values)[i] = old_values[*old];
  }
}

}  // namespace tidemark::store
