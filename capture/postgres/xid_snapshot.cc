#include "capture/postgres/xid_snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// Takes a number off the front of `text`, and the separator behind it, if that is there.
bool TakeNumber(std::string_view* text, char separator, uint64_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(end - text->data());
  if (text->empty()) return true;
  if (text->front() != separator) return false;
  text->remove_prefix(1);
  return true;
}

}  // namespace

uint64_t WholeXid(uint32_t xid, uint64_t near) {
  const auto distance = static_cast<int32_t>(xid - static_cast<uint32_t>(near));
  return near + static_cast<int64_t>(distance);
}

absl::StatusOr<XidSnapshot> XidSnapshot::Parse(std::string_view text) {
  XidSnapshot snapshot;
  std::string_view rest = text;
  bool good = TakeNumber(&rest, ':', &snapshot.xmin_) && TakeNumber(&rest, ':', &snapshot.xmax_) &&
              snapshot.xmin_ <= snapshot.xmax_;
  while (good && !rest.empty()) {
    good = TakeNumber(&rest, ',', &snapshot.in_progress_.emplace_back());
  }
  if (!good) {
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol,
                           fmt::format("the server described a snapshot as '{}'", text));
  }
  std::sort(snapshot.in_progress_.begin(), snapshot.in_progress_.end());
  return snapshot;
}

std::string XidSnapshot::Text() const {
  return fmt::format("{}:{}:{}", xmin_, xmax_, fmt::join(in_progress_, ","));
}

XidSnapshot XidSnapshot::EndingAt(uint64_t xmax) const {
  XidSnapshot ending = *this;
  if (xmax_ <= xmax) return ending;
  std::erase_if(ending.in_progress_, [&](uint64_t xid) { return xid >= xmax; });
  ending.xmax_ = xmax;
  ending.xmin_ = ending.in_progress_.empty() ? xmax : ending.in_progress_.front();
  return ending;
}

bool XidSnapshot::Sees(uint32_t xid) const {
  const uint64_t full = WholeXid(xid, xmax_);
  if (full < xmin_) return true;
  if (full >= xmax_) return false;
  return !std::binary_search(in_progress_.begin(), in_progress_.end(), full);
}

}  // namespace tidemark::capture::postgres
