// Which server, as whom. Pure apart from reading the password file; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::postgres {

// Everything that a connection is made with. The password never stands in a message, and comes of
// the file where one is named.
struct Target {
  std::string host;
  uint32_t port = 5432;
  std::string database;
  std::string user;
  std::string password;
  std::string password_file;
  std::string sslmode;
  std::string sslrootcert;
  std::string application_name;

  // "database shop at db.example:5432 as tidemark".
  std::string Text() const;
};

Target TargetOf(const v1::FeedConfig& config);
// Of a server whose tables are asked. `application_name` is what the server shows of the session.
Target TargetOf(const v1::PostgresLogin& login, std::string application_name);

// Reads password_file each time, so that a rotated password is taken up by the next connection.
// Empty: the client library's own sources. SOURCE_AUTHENTICATION when the file holds none.
absl::StatusOr<std::string> PasswordOf(const Target& target);

// Names with the defaults filled in: tidemark_<feed>, with - as _.
std::string SlotName(const v1::FeedConfig& config);
std::string PublicationName(const v1::FeedConfig& config);

}  // namespace tidemark::capture::postgres
