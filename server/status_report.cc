#include "server/status_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "proto/reason.h"
#include "proto/timestamps.h"
#include "server/limits.h"
#include "server/status_size.h"

namespace tidemark {
namespace {

constexpr std::string_view kStoreReasons[] = {reason::kStoreFull, reason::kStoreIo,
                                              reason::kStoreDamaged, reason::kFoldBehind};

// With the feed's name in front, since the error is shown apart from it.
std::optional<v1::StatusError> StoreErrorOf(const Feed& feed) {
  v1::FeedStatus captured;
  feed.capture().Fill(&captured);
  v1::StatusError error = captured.last_error();
  if (std::find(std::begin(kStoreReasons), std::end(kStoreReasons), error.reason()) ==
      std::end(kStoreReasons)) {
    const absl::Status fold = feed.store().fold_status();
    if (fold.ok()) return std::nullopt;
    error.Clear();
    error.set_reason(ReasonOf(fold));
    error.set_message("rows fall behind: " + std::string(fold.message()));
    error.set_retried(true);
  }
  error.set_message(fmt::format("feed {}: {}", feed.name(), error.message()));
  return error;
}

}  // namespace

StatusReport::StatusReport(const FeedDirectory& feeds, const StreamRegistry& streams,
                           const store::Store& store, std::string store_path,
                           std::string server_version, absl::Time started)
    : feeds_(feeds),
      streams_(streams),
      store_(store),
      store_path_(std::move(store_path)),
      server_version_(std::move(server_version)),
      started_(started) {
  SampleDisk();
}

void StatusReport::SampleDisk() {
  disk_bytes_ = store_.DiskBytes();
  std::error_code error;
  const auto space = std::filesystem::space(store_path_, error);
  if (!error) disk_free_bytes_ = space.available;
}

absl::StatusOr<v1::GetStatusResponse> StatusReport::Get(std::string_view feed) const {
  v1::GetStatusResponse response;
  if (feed.empty()) {
    response = Everything();
  } else {
    const auto found = feeds_.Find(feed);
    if (!found.ok()) return found.status();
    *response.add_feeds() = StatusOf(**found);
    AddServer(&response);
  }
  FitStatus(limits::message_bytes_max, &response);
  return response;
}

v1::GetStatusResponse StatusReport::Everything() const {
  v1::GetStatusResponse response;
  for (const auto& each : feeds_.feeds()) {
    if (!each->dropped()) *response.add_feeds() = StatusOf(*each);
  }
  AddServer(&response);
  return response;
}

void StatusReport::AddServer(v1::GetStatusResponse* response) const {
  response->set_server_version(server_version_);
  *response->mutable_started() = ToTimestamp(started_);
  v1::StoreStatus* store = response->mutable_store();
  store->set_path(store_path_);
  store->set_disk_bytes(disk_bytes_);
  store->set_disk_free_bytes(disk_free_bytes_);
  for (const auto& feed : feeds_.feeds()) {
    const std::optional<v1::StatusError> error = StoreErrorOf(*feed);
    if (error && (!store->has_last_error() ||
                  FromTimestamp(error->at()) > FromTimestamp(store->last_error().at()))) {
      *store->mutable_last_error() = *error;
    }
  }
  response->set_streams(static_cast<uint32_t>(streams_.Count("")));
  response->set_draining(streams_.draining());
}

v1::FeedStatus StatusReport::StatusOf(const Feed& feed) const {
  v1::FeedStatus status = feed.Status();
  status.set_streams(static_cast<uint32_t>(streams_.Count(feed.name())));
  return status;
}

absl::StatusOr<v1::ListStreamsResponse> StatusReport::ListStreams(std::string_view feed) const {
  if (!feed.empty()) {
    if (const auto found = feeds_.Find(feed); !found.ok()) return found.status();
  }
  v1::ListStreamsResponse response;
  for (const StreamView& view : streams_.List(feed)) {
    v1::StreamStatus* stream = response.add_streams();
    stream->set_id(view.id);
    stream->set_feed(view.feed);
    stream->set_label(view.label);
    stream->set_peer(view.peer);
    *stream->mutable_opened() = ToTimestamp(view.opened);
    stream->set_state(view.state);
    stream->set_sent_bytes(view.sent_bytes);
    stream->set_sent_transactions(view.sent_transactions);
    if (view.stalled_since) *stream->mutable_stalled_since() = ToTimestamp(*view.stalled_since);
    if (const auto found = feeds_.Find(view.feed); found.ok()) {
      *stream->mutable_delivered() = (*found)->Describe(view.delivered);
      stream->set_behind_bytes((*found)->store().BytesBehind(view.delivered));
    }
  }
  return response;
}

}  // namespace tidemark
