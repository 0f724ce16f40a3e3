// Standard gRPC health: the empty name stands for the server, every feed has a name of its own.
#pragma once

#include <grpcpp/health_check_service_interface.h>

#include <atomic>

#include "server/feed.h"
#include "server/periodic_task.h"
#include "server/stream_registry.h"

namespace tidemark {

// Whether a feed can be subscribed to and goes on: its initial snapshot is whole, and no error that
// needs a person stopped it. A source that is away for a while is no reason to send clients
// elsewhere: what is stored is served.
bool IsServing(const Feed& feed);

// Thread rule: made and destroyed by one thread, before the gRPC server goes; works on its own.
class HealthReporter {
 public:
  HealthReporter(const FeedDirectory& feeds, const StreamRegistry& streams,
                 grpc::HealthCheckServiceInterface& health);
  // From here on everything is NOT_SERVING: load balancers send new streams elsewhere.
  void Drain();

 private:
  void Update();

  const FeedDirectory& feeds_;
  const StreamRegistry& streams_;
  grpc::HealthCheckServiceInterface& health_;
  std::atomic<bool> draining_ = false;
  PeriodicTask task_;
};

}  // namespace tidemark
