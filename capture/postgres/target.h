// Which server, as whom. Pure apart from reading the password file; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::postgres {

// Everything that a connection is made with. The password never stands in a message.
struct Target {
  std::string host;
  uint32_t port = 5432;
  std::string database;
  std::string user;
  std::string password;
  std::string sslmode;
  std::string sslrootcert;
  std::string application_name;

  // "database shop at db.example:5432 as tidemark".
  std::string Text() const;
};

// Reads password_file, so that a rotated password is taken up by the next connection.
// SOURCE_AUTHENTICATION when that cannot be read.
absl::StatusOr<Target> TargetOf(const v1::FeedConfig& config);

// Names with the defaults filled in: tidemark_<feed>, with - as _.
std::string SlotName(const v1::FeedConfig& config);
std::string PublicationName(const v1::FeedConfig& config);

}  // namespace tidemark::capture::postgres
