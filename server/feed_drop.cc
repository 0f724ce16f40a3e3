#include "server/feed_drop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proto/reason.h"

namespace tidemark {
namespace {

std::string Remains(const std::vector<std::string>& owned) {
  return owned.empty() ? "nothing is known to have been made there"
                       : fmt::format("there remain {}", fmt::join(owned, "; "));
}

}  // namespace

absl::Status FeedDropped(const std::string& feed) {
  return ErrorWithReason(absl::StatusCode::kNotFound, reason::kFeedDropped,
                         fmt::format("feed {} was dropped; no cursor of it resumes any more", feed),
                         {{"feed", feed}});
}

absl::Status DroppedFeedUnknown(const std::string& feed) {
  return ErrorWithReason(
      absl::StatusCode::kNotFound, reason::kFeedUnknown,
      fmt::format("feed {} was dropped; where the configuration still names it, a restart begins "
                  "it afresh, with a new snapshot",
                  feed),
      {{"feed", feed}});
}

absl::Status DropRefusedBy(const absl::Status& why, const std::string& feed,
                           const std::vector<std::string>& owned) {
  if (absl::IsCancelled(why)) {
    return ErrorWithReason(
        absl::StatusCode::kUnavailable, reason::kServerDraining,
        fmt::format("feed {} was not dropped: the server is stopping; order it again when it is "
                    "back",
                    feed));
  }
  return ErrorWithReason(
      why.code(), ReasonOf(why),
      fmt::format(
          "feed {} was not dropped: {}. At its source {}. To drop the feed all the same and "
          "see to that by hand, order it with keep_slot (--keep-slot)",
          feed, std::string(why.message()), Remains(owned)),
      DetailsOf(why));
}

absl::Status DropWithoutSource(const std::string& feed, const std::vector<std::string>& owned) {
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kDropRefused,
      fmt::format("feed {} was not dropped: the configuration does not name it any more, so that "
                  "its source cannot be asked. At its source {}. Drop that by hand, and order the "
                  "drop with keep_slot (--keep-slot)",
                  feed, Remains(owned)),
      {{"feed", feed}});
}

}  // namespace tidemark
