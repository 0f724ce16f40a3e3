#include "proto/reason.h"

#include "absl/strings/cord.h"

namespace tidemark {
namespace {

constexpr char kReasonUrl[] = "tidemark.v1/reason";
// One payload per detail, so that text needs no escaping.
constexpr char kDetailPrefix[] = "tidemark.v1/detail/";

}  // namespace

absl::Status ErrorWithReason(absl::StatusCode code, std::string_view reason,
                             std::string_view message, const ErrorDetails& details) {
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  status.SetPayload(kReasonUrl, absl::Cord(absl::string_view(reason.data(), reason.size())));
  for (const auto& [key, value] : details)
    status.SetPayload(kDetailPrefix + key, absl::Cord(value));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  return payload ? std::string(*payload) : std::string();
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    constexpr size_t kPrefix = sizeof(kDetailPrefix) - 1;
    if (url.substr(0, kPrefix) == kDetailPrefix) {
      details.emplace(std::string(url.substr(kPrefix)), std::string(payload));
    }
  });
  return details;
}

}  // namespace tidemark
