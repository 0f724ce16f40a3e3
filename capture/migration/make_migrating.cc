#include "capture/migration/make_migrating.h"

#include <fmt/format.h>

#include <utility>

#include "capture/migration/log_side.h"
#include "capture/migration/migrating_source.h"
#include "capture/poll/poll_source.h"
#include "proto/reason.h"

namespace tidemark::capture {

absl::StatusOr<std::unique_ptr<Source>> MakeMigrating(const v1::FeedConfig& config,
                                                      std::unique_ptr<Source> log,
                                                      std::vector<TablePattern> tables) {
  MigratingSource::Parts parts;
  parts.feed = config.name();
  for (const v1::PolledTable& polled : config.poll().tables()) {
    const absl::StatusOr<TablePattern> name = TablePattern::Parse(polled.table());
    if (!name.ok()) {
      return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kConfigInvalid,
                             fmt::format("feed {}: {}: {}", config.name(), polled.table(),
                                         std::string(name.status().message())));
    }
    PolledKey& table = parts.tables.emplace_back();
    table.schema = name->schema();
    table.table = name->table();
    table.key.assign(polled.key().begin(), polled.key().end());
  }
  auto poll = std::make_unique<PollSource>(config);
  parts.sight = [source = poll.get()] { return source->last_sight(); };
  parts.tell_all = [source = poll.get()](bool all) { source->TellAll(all); };
  parts.poll = std::move(poll);
  parts.log = std::move(log);
  parts.side = MakeLogSide(config, std::move(tables));
  return std::make_unique<MigratingSource>(std::move(parts));
}

}  // namespace tidemark::capture
