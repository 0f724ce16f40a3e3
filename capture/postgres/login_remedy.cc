#include "capture/postgres/login_remedy.h"

#include <fmt/format.h>

#include <algorithm>

#include "capture/postgres/sql_text.h"

namespace tidemark::capture::postgres {
namespace {

bool Holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// As the server sees the client: what stands in quotes behind the word "host".
std::string ClientAddress(std::string_view message) {
  constexpr std::string_view kBefore = "for host \"";
  const size_t begin = message.find(kBefore);
  if (begin == std::string_view::npos) return "";
  message.remove_prefix(begin + kBefore.size());
  return std::string(message.substr(0, message.find('"')));
}

// A plain word stands for itself in pg_hba.conf, unless it is a keyword there.
std::string HbaName(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  const bool keyword =
      name == "all" || name == "sameuser" || name == "samerole" || name == "replication";
  return plain && !keyword ? name : QuoteIdentifier(name);
}

std::string HbaLine(std::string_view message, const Target& target) {
  const std::string who = fmt::format("{} {}", HbaName(target.database), HbaName(target.user));
  const std::string address = ClientAddress(message);
  constexpr std::string_view kThen =
      "scram-sha-256 # in pg_hba.conf, before lines that reject; then SELECT pg_reload_conf();";
  if (address.empty() || address == "[local]") return fmt::format("local {} {}", who, kThen);
  return fmt::format("{} {} {}/{} {}", Holds(message, "SSL encryption") ? "hostssl" : "host", who,
                     address, Holds(address, ":") ? 128 : 32, kThen);
}

}  // namespace

std::string LoginRemedy(std::string_view message, const Target& target) {
  const std::string role = QuoteIdentifier(target.user);
  // The server's words: our own hint names the file, too.
  if (Holds(message, "no pg_hba.conf entry") || Holds(message, "pg_hba.conf rejects")) {
    return HbaLine(message, target);
  }
  if (Holds(message, "is not permitted to log in"))
    return fmt::format("ALTER ROLE {} LOGIN;", role);
  if (Holds(message, "role \"") && Holds(message, "does not exist")) {
    return fmt::format("CREATE ROLE {} LOGIN REPLICATION; -- then give it its password", role);
  }
  if (Holds(message, "permission denied for database")) {
    return fmt::format("GRANT CONNECT ON DATABASE {} TO {};", QuoteIdentifier(target.database),
                       role);
  }
  // The second since PostgreSQL 16.
  if (Holds(message, "must be superuser or replication role") ||
      Holds(message, "permission denied to start WAL sender")) {
    return fmt::format("ALTER ROLE {} REPLICATION;", role);
  }
  return "";
}

}  // namespace tidemark::capture::postgres
