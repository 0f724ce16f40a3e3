#include "capture/postgres/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// Debian's bundle of public authorities: libpq before 16 has no word for "the system's".
constexpr char kSystemCertificates[] = "/etc/ssl/certs/ca-certificates.crt";

bool IsLocal(const std::string& host) {
  return host.empty() || host.front() == '/' || host == "localhost" || host == "::1" ||
         host.starts_with("127.");
}

absl::StatusOr<std::string> ReadPassword(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || (!std::getline(file, line) && !file.eof())) {
    return ErrorWithReason(absl::StatusCode::kUnauthenticated, reason::kSourceAuthentication,
                           fmt::format("password_file {} cannot be read; it is tried again", path));
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

std::string DefaultName(const std::string& feed) {
  std::string name = "tidemark_" + feed;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace

std::string Target::Text() const {
  return fmt::format("database {} at {}:{} as {}", database, host.empty() ? "local socket" : host,
                     port, user);
}

absl::StatusOr<Target> TargetOf(const v1::FeedConfig& config) {
  const v1::PostgresConfig& postgres = config.postgres();
  Target target;
  target.host = postgres.host();
  target.port = postgres.port() == 0 ? 5432 : postgres.port();
  target.database = postgres.database();
  target.user = postgres.user();
  target.password = postgres.password();
  if (!postgres.password_file().empty()) {
    absl::StatusOr<std::string> password = ReadPassword(postgres.password_file());
    if (!password.ok()) return password.status();
    target.password = *std::move(password);
  }
  target.sslmode = postgres.sslmode();
  if (target.sslmode.empty()) target.sslmode = IsLocal(target.host) ? "prefer" : "verify-full";
  target.sslrootcert = postgres.sslrootcert();
  if (target.sslrootcert.empty() && target.sslmode.starts_with("verify") &&
      std::filesystem::exists(kSystemCertificates)) {
    target.sslrootcert = kSystemCertificates;
  }
  target.application_name = "tidemark/" + config.name();
  return target;
}

std::string SlotName(const v1::FeedConfig& config) {
  return config.postgres().slot().empty() ? DefaultName(config.name()) : config.postgres().slot();
}

std::string PublicationName(const v1::FeedConfig& config) {
  return config.postgres().publication().empty() ? DefaultName(config.name())
                                                 : config.postgres().publication();
}

}  // namespace tidemark::capture::postgres
