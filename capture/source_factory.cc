#include "capture/source_factory.h"

#include <utility>

#include "capture/changelog/checks.h"
#include "capture/changelog/source.h"
#include "capture/migration/make_migrating.h"
#include "capture/poll/checks.h"
#include "capture/poll/poll_source.h"
#include "capture/postgres/checks.h"
#include "capture/postgres/source.h"
#include "proto/reason.h"

namespace tidemark::capture {
namespace {

constexpr std::string_view kDefaultTables = "public.*";

absl::Status Invalid(const v1::FeedConfig& config, const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kConfigInvalid,
                         "feed " + config.name() + ": " + message);
}

template <class Texts>
absl::StatusOr<std::vector<TablePattern>> Patterns(const v1::FeedConfig& config,
                                                   const Texts& texts) {
  std::vector<TablePattern> patterns;
  for (const std::string& text : texts) {
    absl::StatusOr<TablePattern> pattern = TablePattern::Parse(text);
    if (!pattern.ok())
      return Invalid(config, text + ": " + std::string(pattern.status().message()));
    patterns.push_back(*std::move(pattern));
  }
  return patterns;
}

absl::Status NoEngine(const v1::FeedConfig& config) {
  return Invalid(config, "expects one engine: postgres, poll or changelog");
}

absl::StatusOr<std::unique_ptr<Source>> MakePostgres(const v1::FeedConfig& config,
                                                     const std::string& scratch_folder) {
  absl::StatusOr<std::vector<TablePattern>> tables = ConfiguredTables(config);
  if (!tables.ok()) return tables.status();
  absl::StatusOr<std::vector<TablePattern>> rows_off = Patterns(config, config.rows_off());
  if (!rows_off.ok()) return rows_off.status();
  absl::StatusOr<std::vector<TablePattern>> before_images =
      Patterns(config, config.before_images());
  if (!before_images.ok()) return before_images.status();
  return std::make_unique<postgres::PostgresSource>(
      config, *std::move(tables), *std::move(rows_off), *std::move(before_images), scratch_folder);
}

// A feed that is polled until it is moved to its log.
absl::StatusOr<std::unique_ptr<Source>> MakePolledThenLog(const v1::FeedConfig& config,
                                                          const std::string& scratch_folder) {
  absl::StatusOr<std::unique_ptr<Source>> log = MakePostgres(config, scratch_folder);
  if (!log.ok()) return log.status();
  absl::StatusOr<std::vector<TablePattern>> tables = ConfiguredTables(config);
  if (!tables.ok()) return tables.status();
  return MakeMigrating(config, *std::move(log), *std::move(tables));
}

std::vector<Finding> FindingOf(const absl::Status& error) {
  return {{Finding::Severity::kError, ReasonOf(error), std::string(error.message()), ""}};
}

std::vector<Finding> CheckLog(const v1::FeedConfig& config) {
  absl::StatusOr<std::vector<TablePattern>> tables = ConfiguredTables(config);
  if (!tables.ok()) return FindingOf(tables.status());
  return postgres::CheckPostgres(config, *tables);
}

// What each of its two sources lacks. Which of them is read now, only the store says: it is polled
// well while the log is not to be had, and the move itself refuses what is wrong with the log.
std::vector<Finding> CheckPolledThenLog(const v1::FeedConfig& config) {
  std::vector<Finding> findings = CheckPoll(config);
  for (Finding& finding : CheckLog(config)) {
    if (finding.severity == Finding::Severity::kError) {
      finding.severity = Finding::Severity::kWarning;
    }
    finding.message = "to be moved to the log: " + finding.message;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace

absl::StatusOr<std::vector<TablePattern>> ConfiguredTables(const v1::FeedConfig& config) {
  if (!config.postgres().tables().empty()) return Patterns(config, config.postgres().tables());
  std::vector<std::string> tables;
  for (const v1::PolledTable& polled : config.poll().tables()) tables.push_back(polled.table());
  if (tables.empty()) tables.emplace_back(kDefaultTables);
  return Patterns(config, tables);
}

absl::StatusOr<std::unique_ptr<Source>> MakeSource(const v1::FeedConfig& config,
                                                   const std::string& scratch_folder) {
  if (config.has_poll() && config.has_postgres()) return MakePolledThenLog(config, scratch_folder);
  if (config.has_poll()) return std::make_unique<PollSource>(config);
  if (config.has_changelog()) return std::make_unique<changelog::ChangelogSource>(config);
  if (config.has_postgres()) return MakePostgres(config, scratch_folder);
  return NoEngine(config);
}

std::vector<Finding> CheckSource(const v1::FeedConfig& config) {
  if (config.has_poll() && config.has_postgres()) return CheckPolledThenLog(config);
  if (config.has_poll()) return CheckPoll(config);
  if (config.has_changelog()) return changelog::CheckChangelog(config);
  if (config.has_postgres()) return CheckLog(config);
  return FindingOf(NoEngine(config));
}

}  // namespace tidemark::capture
