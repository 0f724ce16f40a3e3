// Columns that line up, and numbers as people read them. Pure.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tidemark::command {

using TextRow = std::vector<std::string>;

// The first row is the heading. Every row has as many cells as the heading.
std::string TextTable(const std::vector<TextRow>& rows);

std::string BytesText(uint64_t bytes);                             // 12.3 MiB
std::string DurationText(const google::protobuf::Duration& time);  // 1.5s
std::string TimeText(const google::protobuf::Timestamp& time);     // RFC 3339 in UTC; - for none
// SOURCE_STATE_STREAMING -> streaming.
std::string EnumText(const std::string& name, const std::string& prefix);

}  // namespace tidemark::command
