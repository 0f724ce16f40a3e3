#include "capture/postgres/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// Debian's bundle of public authorities: libpq before 16 has no word for "the system's".
constexpr char kSystemCertificates[] = "/etc/ssl/certs/ca-certificates.crt";

bool IsLocal(const std::string& host) {
  return host.empty() || host.front() == '/' || host == "localhost" || host == "::1" ||
         host.starts_with("127.");
}

std::string DefaultName(const std::string& feed) {
  std::string name = "tidemark_" + feed;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// PostgresConfig and PostgresLogin have the same fields.
template <class Login>
Target FromFields(const Login& login, std::string application_name) {
  Target target;
  target.host = login.host();
  target.port = login.port() == 0 ? 5432 : login.port();
  target.database = login.database();
  target.user = login.user();
  target.password = login.password();
  target.password_file = login.password_file();
  target.sslmode = login.sslmode();
  if (target.sslmode.empty()) target.sslmode = IsLocal(target.host) ? "prefer" : "verify-full";
  target.sslrootcert = login.sslrootcert();
  if (target.sslrootcert.empty() && target.sslmode.starts_with("verify") &&
      std::filesystem::exists(kSystemCertificates)) {
    target.sslrootcert = kSystemCertificates;
  }
  target.application_name = std::move(application_name);
  return target;
}

}  // namespace

std::string Target::Text() const {
  return fmt::format("database {} at {}:{} as {}", database, host.empty() ? "local socket" : host,
                     port, user);
}

Target TargetOf(const v1::FeedConfig& config) {
  return FromFields(config.postgres(), "tidemark/" + config.name());
}

Target TargetOf(const v1::PostgresLogin& login, std::string application_name) {
  return FromFields(login, std::move(application_name));
}

absl::StatusOr<std::string> PasswordOf(const Target& target) {
  if (target.password_file.empty()) return target.password;
  std::ifstream file(target.password_file);
  std::string line;
  const bool opened = file.is_open();
  std::getline(file, line);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  // One that is written anew is empty for a moment.
  if (!line.empty()) return line;
  return ErrorWithReason(
      absl::StatusCode::kUnauthenticated, reason::kSourceAuthentication,
      fmt::format("password_file {} {}; it is tried again", target.password_file,
                  opened ? "has no password in its first line" : "cannot be read"));
}

std::string SlotName(const v1::FeedConfig& config) {
  return config.postgres().slot().empty() ? DefaultName(config.name()) : config.postgres().slot();
}

std::string PublicationName(const v1::FeedConfig& config) {
  return config.postgres().publication().empty() ? DefaultName(config.name())
                                                 : config.postgres().publication();
}

}  // namespace tidemark::capture::postgres
