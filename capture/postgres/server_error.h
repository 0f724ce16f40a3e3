// Which reason of proto/reason.h an error of PostgreSQL means. Pure; safe from any thread.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace tidemark::capture::postgres {

struct ServerError {
  // Five characters; empty when the connection itself failed.
  std::string_view sqlstate;
  // As the server or the client library words it.
  std::string_view message;
  // What was being done, and where: "connecting to db.example:5432/shop as tidemark".
  std::string_view doing;
};

// The status names what was being done, the server's words and SQLSTATE, and what to do next. What
// is not known is retried when its class says that it may pass (connection, resources, shutdown,
// system, conflicts), and is SOURCE_PROTOCOL otherwise.
absl::Status StatusOf(const ServerError& error);

}  // namespace tidemark::capture::postgres
