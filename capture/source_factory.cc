#include "capture/source_factory.h"

#include <utility>

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

}  // namespace

absl::StatusOr<std::vector<TablePattern>> ConfiguredTables(const v1::FeedConfig& config) {
  if (config.postgres().tables().empty()) {
    return Patterns(config, std::vector<std::string>{std::string(kDefaultTables)});
  }
  return Patterns(config, config.postgres().tables());
}

absl::StatusOr<std::unique_ptr<Source>> MakeSource(const v1::FeedConfig& config) {
  if (!config.has_postgres()) return Invalid(config, "no engine is set; set postgres");
  absl::StatusOr<std::vector<TablePattern>> tables = ConfiguredTables(config);
  if (!tables.ok()) return tables.status();
  absl::StatusOr<std::vector<TablePattern>> rows_off = Patterns(config, config.rows_off());
  if (!rows_off.ok()) return rows_off.status();
  absl::StatusOr<std::vector<TablePattern>> before_images =
      Patterns(config, config.before_images());
  if (!before_images.ok()) return before_images.status();
  return std::make_unique<postgres::PostgresSource>(
      config, *std::move(tables), *std::move(rows_off), *std::move(before_images));
}

std::vector<Finding> CheckSource(const v1::FeedConfig& config) {
  absl::StatusOr<std::vector<TablePattern>> tables =
      config.has_postgres() ? ConfiguredTables(config)
                            : Invalid(config, "no engine is set; set postgres");
  if (!tables.ok()) {
    return {{Finding::Severity::kError, ReasonOf(tables.status()),
             std::string(tables.status().message()), ""}};
  }
  return postgres::CheckPostgres(config, *tables);
}

}  // namespace tidemark::capture
