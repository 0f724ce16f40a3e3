#include "server/migrate_call.h"

#include <fmt/format.h>

#include "capture/migration/migration_order.h"
#include "capture/migration/migration_steps.h"
#include "proto/reason.h"
#include "server/error_status.h"
#include "server/reader_request.h"

namespace tidemark {
namespace {

std::string WhatIsMissing(const v1::FeedConfig& config) {
  const std::string_view name = config.name();
  if (config.has_poll()) {
    return fmt::format(
        "its configuration does not say where its log is: put a postgres block beside its poll "
        "block, restart, and run tidemark feed migrate {} again",
        name);
  }
  return config.has_postgres() ? "it is captured from the log already"
                               : "it is not polled; only a feed with a poll block is moved";
}

}  // namespace

grpc::ServerUnaryReactor* MigrateCall::Start(const v1::MigrateFeedRequest* request,
                                             const FeedDirectory& feeds) {
  std::shared_ptr<MigrateCall> call(new MigrateCall());
  call->self_ = call;
  if (auto given = call->Give(*request, feeds); !given.ok()) call->Answer(given);
  return call.get();
}

absl::Status MigrateCall::Give(const v1::MigrateFeedRequest& request, const FeedDirectory& feeds) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  const auto feed = feeds.Find(request.feed());
  if (!feed.ok()) return feed.status();
  auto* const source = dynamic_cast<capture::Migrating*>(&(*feed)->source());
  if (source == nullptr) {
    return capture::MigrationRefused((*feed)->name(), WhatIsMissing((*feed)->config()));
  }
  source->OrderMigration(
      {request.roll_back(),
       [call = shared_from_this()](const absl::Status& status) { call->Answer(status); }});
  return absl::OkStatus();
}

void MigrateCall::Answer(const absl::Status& status) {
  if (!answered_.exchange(true)) Finish(ToGrpcStatus(status));
}

}  // namespace tidemark
