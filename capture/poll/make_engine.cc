#include "capture/poll/make_engine.h"

#include "capture/poll/postgres_engine.h"
#include "capture/postgres/target.h"

namespace tidemark::capture::poll {

std::unique_ptr<PollEngine> MakeEngine(const v1::FeedConfig& config, const PollSettings& settings) {
  return std::make_unique<PostgresEngine>(
      postgres::TargetOf(config.poll().postgres(), "tidemark/" + config.name()), settings);
}

}  // namespace tidemark::capture::poll
