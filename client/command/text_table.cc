#include "client/command/text_table.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "proto/timestamps.h"

namespace tidemark::command {

std::string TextTable(const std::vector<TextRow>& rows) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows.front().size());
  for (const TextRow& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string BytesText(uint64_t bytes) {
  static constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < units.size(); ++unit) amount /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", amount, units[unit]);
}

std::string DurationText(const google::protobuf::Duration& time) {
  return absl::FormatDuration(absl::Trunc(FromDuration(time), absl::Milliseconds(1)));
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0 && time.nanos() == 0) return "-";
  return google::protobuf::util::TimeUtil::ToString(time);
}

std::string EnumText(const std::string& name, const std::string& prefix) {
  return absl::AsciiStrToLower(name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name);
}

}  // namespace tidemark::command
