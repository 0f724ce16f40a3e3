// Of which tables a feed keeps current rows, and what they are used for. Pure.
#pragma once

#include <functional>
#include <string_view>

#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark {

// True for a table with a usable key, unless the configuration switches rows off for the feed or,
// by rows_off, for the table. REQUIRES: a configuration that LoadConfig accepted.
std::function<bool(const v1::TableSchema&)> RowsPolicyOf(const v1::FeedConfig& config);

// Whether the configuration wants rows of a table, if only it has a usable key. The same REQUIRES.
bool WantsRows(const v1::FeedConfig& config, std::string_view schema_name,
               std::string_view table_name);

// True for a table whose changes are to carry the row before them (before_images). The same
// REQUIRES.
std::function<bool(const v1::TableSchema&)> WantsBeforeOf(const v1::FeedConfig& config);

}  // namespace tidemark
