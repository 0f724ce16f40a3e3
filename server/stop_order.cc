#include "server/stop_order.h"

#include <fmt/format.h>

#include "proto/timestamps.h"
#include "server/request_error.h"

namespace tidemark {

absl::StatusOr<StopOrder> ParseStopOrder(std::string_view text) {
  if (text.empty() || text == "never") return StopOrder();
  StopOrder order;
  if (text == "now") {
    order.kind = StopOrder::Kind::kNow;
    return order;
  }
  if (text.find(':') == std::string_view::npos) {
    order.kind = StopOrder::Kind::kNative;
    order.native = std::string(text);
    return order;
  }
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, {text.data(), text.size()}, &order.time, &error)) {
    return InvalidRequest("stop_at", fmt::format("\"{}\" is no time; write it as "
                                                 "2026-03-01T12:00:00Z",
                                                 text.substr(0, 64)));
  }
  order.kind = StopOrder::Kind::kTime;
  return order;
}

std::string StopOrderText(const v1::Until& until) {
  switch (until.kind_case()) {
    case v1::Until::kNow:
      return "now";
    case v1::Until::kTime:
      return absl::FormatTime(absl::RFC3339_full, FromTimestamp(until.time()), absl::UTCTimeZone());
    case v1::Until::kNativePosition:
      return until.native_position();
    default:
      return "";
  }
}

}  // namespace tidemark
