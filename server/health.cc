#include "server/health.h"

#include "server/limits.h"

namespace tidemark {

bool IsServing(const Feed& feed) {
  return !feed.dropped() && feed.store().snapshot_whole() &&
         feed.capture().phase() != CapturePhase::kFailed;
}

HealthReporter::HealthReporter(const FeedDirectory& feeds, const StreamRegistry& streams,
                               grpc::HealthCheckServiceInterface& health)
    : feeds_(feeds),
      streams_(streams),
      health_(health),
      task_(absl::Milliseconds(limits::health_period_ms), [this] { Update(); }) {}

void HealthReporter::Update() {
  if (draining_) return;
  // By order.
  if (streams_.draining()) return Drain();
  for (const auto& feed : feeds_.feeds()) health_.SetServingStatus(feed->name(), IsServing(*feed));
  health_.SetServingStatus("", true);
}

void HealthReporter::Drain() {
  draining_ = true;
  // Holds from here on, whatever an update in progress still sets.
  health_.Shutdown();
}

}  // namespace tidemark
