#include "capture/changelog/checks.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "capture/changelog/source.h"
#include "capture/postgres/login_remedy.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

using postgres::Connection;

Finding Error(const absl::Status& status, std::string remedy = "") {
  return {Finding::Severity::kError, ReasonOf(status), std::string(status.message()),
          std::move(remedy)};
}

std::vector<Finding> FindingsOf(const std::vector<Lack>& lacks) {
  std::vector<Finding> findings;
  for (const Lack& lack : lacks) {
    findings.push_back({lack.warning ? Finding::Severity::kWarning : Finding::Severity::kError,
                        lack.reason, lack.message, lack.remedy});
  }
  return findings;
}

}  // namespace

std::vector<Finding> CheckChangelog(const v1::FeedConfig& config) {
  const absl::StatusOr<Settings> settings = SettingsOf(config);
  if (!settings.ok()) return {Error(settings.status())};
  const postgres::Target target =
      postgres::TargetOf(config.changelog().postgres(), "tidemark/" + config.name());
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  postgres::Interruption never;
  const absl::StatusOr<std::unique_ptr<Connection>> session =
      Connection::Open(target, Connection::Kind::kSql, &never, deadline);
  if (!session.ok()) {
    return {Error(session.status(),
                  postgres::LoginRemedy(std::string(session.status().message()), target))};
  }
  const absl::StatusOr<postgres::ServerIdentity> server =
      postgres::ReadServerIdentity(session->get(), deadline);
  if (!server.ok()) return {Error(server.status())};
  const absl::StatusOr<TableFacts> facts =
      ReadTableFacts(session->get(), *settings, server->in_recovery, deadline);
  if (!facts.ok()) return {Error(facts.status())};
  std::vector<Finding> findings = FindingsOf(LacksOf(*facts, *settings));
  if (findings.empty()) {
    findings.push_back({Finding::Severity::kOk, "",
                        fmt::format("{} in {}: ready", settings->TableText(), target.Text()), ""});
  }
  return findings;
}

}  // namespace tidemark::capture::changelog
