#include "server/server.h"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "capture/owned_objects.h"
#include "capture/source_factory.h"
#include "proto/reason.h"
#include "proto/timestamps.h"
#include "server/feed_drop.h"
#include "server/limits.h"
#include "server/listener.h"
#include "server/rows_policy.h"
#include "server/tail_hub.h"

namespace tidemark {
namespace {

store::RetentionBounds BoundsOf(const v1::RetentionConfig& retention) {
  return {.age = FromDuration(retention.age()), .bytes = retention.bytes().bytes()};
}

// A source that ended at a bound proved more than its head says.
Position ProvedBy(const store::FeedStore& store) {
  const v1::StopRecord stop = store.checkpoint().stop();
  const auto bound = Position::FromBytes(stop.bound());
  return stop.finished() && bound.ok() ? *bound : store.head();
}

// The engine's name in the store and in status: the name of the key that configures it. A feed that
// is to be moved from poll to postgres is begun as a polled one.
std::string EngineOf(const v1::FeedConfig& feed) {
  if (feed.has_poll()) return "poll";
  return feed.has_changelog() ? "changelog" : "postgres";
}

bool IsBeingMoved(const store::FeedStore& store) {
  const v1::Checkpoint checkpoint = store.checkpoint();
  return checkpoint.has_migration() && !checkpoint.has_postgres();
}

absl::Status MoveNeedsBoth(const std::string& feed) {
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kConfigInvalid,
      fmt::format("feed {0} is being moved from polling to the log, which needs both blocks, poll "
                  "and postgres: put back the one that is missing, or roll the move back first "
                  "(tidemark feed migrate {0} --roll-back)",
                  feed));
}

// What to do where the store has the feed with the other of the two engines between which feeds are
// moved. OK: it has neither.
absl::Status EngineChanged(store::Store& store, const v1::FeedConfig& config) {
  if (config.has_postgres() && store.OpenFeed(config.name(), "poll").ok()) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kConfigInvalid,
        fmt::format("feed {0} was polled, and was not moved to the log: put its poll block back "
                    "beside postgres, and run tidemark feed migrate {0}",
                    config.name()));
  }
  if (config.has_poll() && store.OpenFeed(config.name(), "postgres").ok()) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kConfigInvalid,
        fmt::format("feed {} is captured from the log: configure it with postgres, or give the "
                    "polled feed a name of its own",
                    config.name()));
  }
  return absl::OkStatus();
}

std::chrono::system_clock::time_point In(absl::Duration wait) {
  return absl::ToChronoTime(absl::Now() + wait);
}

}  // namespace

Server::Server(const v1::Config& config, ServerOptions options)
    : config_(config), options_(std::move(options)), streams_(limits::streams_max) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const v1::Config& config,
                                                      ServerOptions options) {
  std::unique_ptr<Server> server(new Server(config, std::move(options)));
  auto log = EventLog::Open(config.log());
  if (!log.ok()) return log.status();
  server->log_ = *std::move(log);
  if (auto status = server->OpenStore(); !status.ok()) return status;
  if (auto status = server->OpenFeeds(); !status.ok()) return status;
  // Before any source is touched: a second server on the same port must not move a slot.
  if (auto status = server->Serve(); !status.ok()) return status;
  server->StartLoops();
  return server;
}

absl::Status Server::OpenStore() {
  store::StoreOptions options;
  options.path = config_.store().path();
  options.env = options_.store_env;
  auto store = store::Store::Open(options);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  auto cursors = store::CursorCodec::Open(config_.store().cursor_keys_file());
  if (!cursors.ok()) return cursors.status();
  cursors_ = std::make_unique<store::CursorCodec>(*std::move(cursors));
  return absl::OkStatus();
}

absl::Status Server::OpenFeeds() {
  std::vector<std::unique_ptr<Feed>> feeds;
  for (const v1::FeedConfig& config : config_.feeds()) {
    auto feed = OpenFeed(config);
    if (!feed.ok()) return feed.status();
    feeds.push_back(*std::move(feed));
  }
  feeds_ = std::make_unique<FeedDirectory>(std::move(feeds));
  return LogForgotten();
}

absl::Status Server::LogForgotten() {
  const auto names = store_->FeedNames();
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (feeds_->Find(name).ok()) continue;
    log_->Warning(
        "the store holds a feed that the configuration does not name",
        {{"feed", name}, {"remedy", "tidemark feed drop " + name + " --keep-slot --yes"}});
  }
  const auto drops = store_->Drops();
  if (!drops.ok()) return drops.status();
  for (const auto& [name, record] : *drops) {
    v1::Checkpoint checkpoint;
    *checkpoint.mutable_postgres() = record.left();
    log_->Warning(
        "a feed was dropped, and this may be left at its source",
        {{"feed", name},
         {"left", absl::StrJoin(capture::OwnedObjects(checkpoint), "; ")},
         {"remedy", "drop it by hand, then tidemark feed drop " + name + " --keep-slot --yes"}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Feed>> Server::OpenFeed(const v1::FeedConfig& config) {
  // The store's own folder, whose disk is the one that is sized and watched.
  auto source = options_.make_source ? options_.make_source(config)
                                     : capture::MakeSource(config, config_.store().path());
  if (!source.ok()) return source.status();
  auto store = OpenStoreOf(config);
  if (!store.ok()) return store.status();
  (*store)->SetRowsPolicy(RowsPolicyOf(config));

  Feed::Parts parts;
  parts.config = config;
  parts.retention = BoundsOf(config.retention());
  parts.store = *store;
  parts.cursors = cursors_.get();
  parts.source = *std::move(source);
  parts.tail = std::make_unique<TailHub>(
      [cursors = cursors_.get(), feed = *store](const Position& boundary) {
        return cursors->Encode(feed->record().identity(), boundary);
      },
      limits::ring_bytes_max);
  parts.tail->Start((*store)->head(), ProvedBy(**store));
  parts.end_streams = [this, name = config.name()] {
    streams_.EndFeed(name, {FeedDropped(name)});
    streams_.WaitUntilEmpty(absl::Now() + absl::Milliseconds(limits::drop_streams_max_ms), name);
  };
  return std::make_unique<Feed>(std::move(parts));
}

absl::StatusOr<store::FeedStore*> Server::OpenStoreOf(const v1::FeedConfig& config) {
  const bool both = config.has_poll() && config.has_postgres();
  auto store = store_->OpenFeed(config.name(), EngineOf(config));
  if (store.ok()) {
    return !both && IsBeingMoved(**store) ? MoveNeedsBoth(config.name()) : store;
  }
  if (!absl::IsFailedPrecondition(store.status())) return store;
  // It was moved to the log.
  if (both) return store_->OpenFeed(config.name(), "postgres");
  const absl::Status changed = EngineChanged(*store_, config);
  return changed.ok() ? store : changed;
}

absl::Status Server::Serve() {
  auto credentials = MakeCredentials(config_);
  if (!credentials.ok()) return credentials.status();
  delivery_ = std::make_unique<DeliveryPool>(limits::delivery_threads);
  status_ = std::make_unique<StatusReport>(*feeds_, streams_, *store_, config_.store().path(),
                                           kServerVersion, absl::Now());
  const absl::Duration stall_timeout = FromDuration(config_.client_stall_timeout());
  admin_service_ = std::make_unique<AdminService>(*feeds_, *status_, streams_, *store_, *delivery_,
                                                  stall_timeout);
  feed_service_ =
      std::make_unique<FeedService>(*feeds_, streams_, *delivery_, kServerVersion, stall_timeout);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetListenerOptions(&builder);
  int port = 0;
  builder.AddListeningPort(config_.listen(), *std::move(credentials), &port);
  builder.RegisterService(feed_service_.get());
  builder.RegisterService(admin_service_.get());
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kListenFailed,
        fmt::format("cannot listen on {}: in use, or not an address of this machine",
                    config_.listen()));
  }
  address_ = BoundAddress(config_.listen(), port);
  if (config_.metrics_listen().empty()) return absl::OkStatus();
  auto metrics = MetricsEndpoint::Listen(config_.metrics_listen(), *status_);
  if (!metrics.ok()) {
    grpc_server_->Shutdown(In(absl::ZeroDuration()));
    return metrics.status();
  }
  metrics_ = *std::move(metrics);
  return absl::OkStatus();
}

void Server::StartLoops() {
  health_ =
      std::make_unique<HealthReporter>(*feeds_, streams_, *grpc_server_->GetHealthCheckService());
  retention_ = std::make_unique<RetentionLoop>(*feeds_, streams_, *log_);
  disk_sampler_ = std::make_unique<PeriodicTask>(absl::Milliseconds(limits::disk_sample_period_ms),
                                                 [this] { status_->SampleDisk(); });
  state_log_ = std::make_unique<StateLog>(*feeds_, *log_);
  state_logger_ = std::make_unique<PeriodicTask>(absl::Milliseconds(limits::health_period_ms),
                                                 [this] { state_log_->Update(); });
  for (const auto& feed : feeds_->feeds()) {
    auto observer = options_.observer ? options_.observer(feed->name()) : nullptr;
    runners_.push_back(std::make_unique<FeedRunner>(*feed, *log_, std::move(observer)));
  }
  log_->Info("serving", {{"address", address_}, {"version", kServerVersion}});
}

void Server::Reload(const absl::StatusOr<v1::Config>& file) {
  if (!file.ok()) {
    log_->Error("configuration refused", {{"reason", ReasonOf(file.status())},
                                          {"message", std::string(file.status().message())}});
    return;
  }
  std::set<std::string> stopped;
  for (const auto& feed : feeds_->feeds()) {
    if (feed->capture().phase() == CapturePhase::kFailed) stopped.insert(feed->name());
  }
  ReloadPlan plan = PlanReload(config_, *file, stopped);
  log_->SetLevel(plan.running.log().level());
  LogReload(plan);
  const v1::Config before = std::exchange(config_, std::move(plan.running));
  for (int i = 0; i < config_.feeds_size(); ++i) {
    const v1::FeedConfig& feed = config_.feeds(i);
    feeds_->feeds()[i]->SetRetention(BoundsOf(feed.retention()));
    const auto& tables = feed.postgres().tables();
    if (!std::ranges::equal(before.feeds(i).postgres().tables(), tables)) {
      UseTables(feed, *feeds_->feeds()[i]);
    }
  }
}

void Server::LogReload(const ReloadPlan& plan) {
  constexpr char kEvent[] = "configuration read again";
  const EventFields fields = {{"applied", absl::StrJoin(plan.applied, ", ")},
                              {"with_restart", absl::StrJoin(plan.with_restart, ", ")}};
  if (plan.with_restart.empty()) {
    log_->Info(kEvent, fields);
  } else {
    log_->Warning(kEvent, fields);
  }
}

void Server::UseTables(const v1::FeedConfig& config, const Feed& feed) {
  auto tables = capture::ConfiguredTables(config);
  // LoadConfig read them already.
  if (!tables.ok()) return;
  const auto orders = StandingOrders(*tables, feed.store().table_states());
  log_->Info("tables of the feed", {{"feed", feed.name()},
                                    {"tables", absl::StrJoin(config.postgres().tables(), ", ")},
                                    {"orders_stand", absl::StrJoin(orders, ", ")}});
  feed.source().UseTables(*std::move(tables));
}

bool Server::Stop(absl::Duration drain_timeout) {
  if (std::exchange(stopped_, true)) return true;
  log_->Info("draining", {{"streams", std::to_string(streams_.Count(""))}});
  health_->Drain();
  streams_.Drain({ErrorWithReason(absl::StatusCode::kUnavailable, reason::kServerDraining,
                                  "the server is stopping; resume from the cursor"),
                  absl::Milliseconds(limits::drain_retry_after_ms)});
  const bool drained = streams_.WaitUntilEmpty(absl::Now() + drain_timeout);
  if (!drained) {
    log_->Warning("streams did not take their Closing in time",
                  {{"streams", std::to_string(streams_.Count(""))}});
  }

  for (const auto& runner : runners_) runner->RequestStop();
  const absl::Time deadline = absl::Now() + absl::Milliseconds(limits::source_stop_max_ms);
  bool all_ended = true;
  for (const auto& runner : runners_) all_ended = runner->StopBefore(deadline) && all_ended;

  retention_.reset();
  disk_sampler_.reset();
  state_logger_.reset();
  grpc_server_->Shutdown(In(absl::Milliseconds(limits::calls_stop_max_ms)));
  health_.reset();
  metrics_.reset();
  delivery_->Stop();
  log_->Info("stopped", {{"drained", drained ? "true" : "false"}});
  return all_ended;
}

Server::~Server() {
  // Where Start failed half way there is nothing to stop but what its members stop themselves.
  if (!runners_.empty()) Stop(absl::ZeroDuration());
}

}  // namespace tidemark
