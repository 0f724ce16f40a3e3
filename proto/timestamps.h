// Times and lengths of time in the forms of the API. Pure; safe from any thread. Times and lengths
// that are given are finite.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>

#include "absl/time/time.h"

namespace tidemark {

inline google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  google::protobuf::Timestamp timestamp;
  const int64_t seconds = absl::ToUnixSeconds(time);
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return timestamp;
}

inline google::protobuf::Duration ToDuration(absl::Duration duration) {
  google::protobuf::Duration result;
  absl::Duration rest;
  result.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  result.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return result;
}

// The same for what comes of a rate, which may be more than a Duration is allowed to hold: at most
// 2^63 nanoseconds, 292 years.
inline google::protobuf::Duration ToEstimate(absl::Duration duration) {
  return ToDuration(absl::Nanoseconds(absl::ToInt64Nanoseconds(duration)));
}

inline absl::Time FromTimestamp(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

inline absl::Duration FromDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace tidemark
