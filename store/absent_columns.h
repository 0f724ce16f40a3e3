// Columns that a change says nothing about, taken from the row before it. Pure; safe from any
// thread. A value is a serialized tidemark.v1.Value; an empty one is absent.
#pragma once

#include <string_view>
#include <vector>

#include "tidemark/v1/change.pb.h"

namespace tidemark::store {

bool HasAbsent(const std::vector<std::string_view>& values);

// Replaces the absent ones of `values`, which stand under `schema`, by those of the row before,
// which stands under `old_schema`. A column is found by its name, or, where nothing but names
// differs, by its place, since it was renamed then. Where its type changed meanwhile it stays
// absent: the old value may not be what the source holds now. Two columns that swapped their names
// look like one that was dropped and added again, and are taken for that. The views become those of
// `old_values`.
void FillAbsent(const v1::TableSchema& old_schema, const std::vector<std::string_view>& old_values,
                const v1::TableSchema& schema, std::vector<std::string_view>* values);

}  // namespace tidemark::store
