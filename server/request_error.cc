#include "server/request_error.h"

#include <string>

#include "proto/reason.h"

namespace tidemark {

absl::Status InvalidRequest(std::string_view field, std::string_view message) {
  return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kRequestInvalid,
                         std::string(field) + ": " + std::string(message),
                         {{"field", std::string(field)}});
}

absl::Status UnsupportedFeature(std::string_view feature) {
  return ErrorWithReason(
      absl::StatusCode::kUnimplemented, reason::kFeatureUnsupported,
      std::string(feature) + " is part of the contract, but this server cannot do it yet",
      {{"feature", std::string(feature)}});
}

absl::Status DamagedStore(std::string_view what) {
  return ErrorWithReason(
      absl::StatusCode::kDataLoss, reason::kStoreDamaged,
      std::string(what) + " cannot be read; stop the server and verify the store with logdump");
}

}  // namespace tidemark
