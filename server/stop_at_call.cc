#include "server/stop_at_call.h"

#include <optional>
#include <string>
#include <utility>

#include "server/error_status.h"
#include "server/reader_request.h"
#include "server/request_error.h"
#include "server/stop_order.h"
#include "server/stream_bound.h"

namespace tidemark {
namespace {

v1::StopAtResponse ResponseOf(const Feed& feed, const v1::StopRecord& record) {
  v1::StopAtResponse response;
  response.set_finished(record.finished());
  if (const auto bound = Position::FromBytes(record.bound()); bound.ok()) {
    response.set_position(bound->Text());
    response.set_native_position(feed.source().NativeText(*bound));
  }
  return response;
}

}  // namespace

grpc::ServerUnaryReactor* StopAtCall::Start(const v1::StopAtRequest* request,
                                            v1::StopAtResponse* response,
                                            const FeedDirectory& feeds) {
  std::shared_ptr<StopAtCall> call(new StopAtCall(response));
  call->self_ = call;
  if (auto given = call->Give(*request, feeds); !given.ok()) call->Answer(given, {});
  return call.get();
}

absl::Status StopAtCall::Give(const v1::StopAtRequest& request, const FeedDirectory& feeds) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  if (auto status = CheckUntil(request.until()); !status.ok()) return status;
  const auto found = feeds.Find(request.feed());
  if (!found.ok()) return found.status();
  Feed* const feed = *found;
  std::string requested = StopOrderText(request.until());
  std::optional<Position> bound;
  if (request.until().has_cursor()) {
    const auto boundary = ReachableBoundary(*feed, request.until().cursor());
    if (!boundary.ok()) return boundary.status();
    // For people; where it is depends on its generation, which the text leaves out.
    requested = feed->source().NativeText(*boundary);
    bound = *boundary;
  } else if (request.until().has_native_position()) {
    const auto position = feed->source().ParseNative(requested, feed->store().generation());
    if (!position.ok()) return position.status();
  }
  const auto answer = [call = shared_from_this(),
                       feed](const absl::StatusOr<v1::StopRecord>& record) {
    call->Answer(record.status(), record.ok() ? ResponseOf(*feed, *record) : v1::StopAtResponse());
  };
  feed->stop().Give(std::move(requested), bound, answer);
  return absl::OkStatus();
}

void StopAtCall::Answer(const absl::Status& status, const v1::StopAtResponse& response) {
  if (answered_.exchange(true)) return;
  *response_ = response;
  Finish(ToGrpcStatus(status));
}

}  // namespace tidemark
