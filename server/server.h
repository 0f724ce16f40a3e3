// The server as a whole: builds, starts and stops every part in order.
#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/source.h"
#include "server/admin_service.h"
#include "server/config_reload.h"
#include "server/delivery_pool.h"
#include "server/event_log.h"
#include "server/feed.h"
#include "server/feed_runner.h"
#include "server/feed_service.h"
#include "server/health.h"
#include "server/metrics.h"
#include "server/periodic_task.h"
#include "server/retention_loop.h"
#include "server/state_log.h"
#include "server/status_report.h"
#include "server/stream_registry.h"
#include "store/store.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark {

inline constexpr char kServerVersion[] = TIDEMARK_VERSION;

// What tests put in the place of the real thing.
struct ServerOptions {
  // Null: capture::MakeSource.
  std::function<absl::StatusOr<std::unique_ptr<capture::Source>>(const v1::FeedConfig&)>
      make_source;
  // Null: nothing. Asked once per feed.
  std::function<IngestObserver(const std::string& feed)> observer;
  // Not owned; null: the process's own file system. Must outlive the server.
  rocksdb::Env* store_env = nullptr;
};

// Thread rule: Start, Stop and the destructor from one thread; Reload from one thread, and not
// beside Stop; the accessors from any.
class Server {
 public:
  // Takes a configuration that LoadConfig returned. On error nothing runs and no source was
  // touched. Reasons: those of Store::Open and of CursorCodec::Open; LISTEN_FAILED for an address
  // that cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const v1::Config& config,
                                                       ServerOptions options = {});
  // Stops without a drain, if Stop was not called.
  ~Server();

  // What LoadConfig says of the configuration file now. Takes over what can change while the server
  // runs and names the rest in the event log; an error changes nothing.
  void Reload(const absl::StatusOr<v1::Config>& file);

  // Every stream gets Closing with its cursor, new ones are refused, then all parts end, the store
  // last. False when a source did not let go of its thread in time: then the only way on is to end
  // the process, which loses nothing.
  bool Stop(absl::Duration drain_timeout);

  // With the port that was chosen where the configuration says port 0.
  const std::string& address() const { return address_; }
  const FeedDirectory& feeds() const { return *feeds_; }
  StreamRegistry& streams() { return streams_; }

 private:
  Server(const v1::Config& config, ServerOptions options);

  absl::Status OpenStore();
  absl::Status OpenFeeds();
  // What the store keeps of feeds that nobody configures any more.
  absl::Status LogForgotten();
  absl::StatusOr<std::unique_ptr<Feed>> OpenFeed(const v1::FeedConfig& config);
  // Of the kind that it is configured with, or was moved to.
  absl::StatusOr<store::FeedStore*> OpenStoreOf(const v1::FeedConfig& config);
  absl::Status Serve();
  void StartLoops();
  void LogReload(const ReloadPlan& plan);
  void UseTables(const v1::FeedConfig& config, const Feed& feed);

  // What is in force.
  v1::Config config_;
  const ServerOptions options_;

  // In the order in which they are made; destroyed from the last to the first.
  std::unique_ptr<EventLog> log_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<store::CursorCodec> cursors_;
  std::unique_ptr<FeedDirectory> feeds_;
  StreamRegistry streams_;
  std::unique_ptr<DeliveryPool> delivery_;
  std::unique_ptr<StatusReport> status_;
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<FeedService> feed_service_;
  std::unique_ptr<grpc::Server> grpc_server_;
  std::string address_;
  std::unique_ptr<MetricsEndpoint> metrics_;
  std::unique_ptr<HealthReporter> health_;
  std::unique_ptr<RetentionLoop> retention_;
  std::unique_ptr<PeriodicTask> disk_sampler_;
  std::unique_ptr<StateLog> state_log_;
  std::unique_ptr<PeriodicTask> state_logger_;
  std::vector<std::unique_ptr<FeedRunner>> runners_;
  bool stopped_ = false;
};

}  // namespace tidemark
