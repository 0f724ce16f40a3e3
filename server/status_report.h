// The status of the whole server, from memory: no call here waits for a source or for the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/feed.h"
#include "server/stream_registry.h"
#include "store/store.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Thread rule: safe from any thread. Everything given is lent.
class StatusReport {
 public:
  StatusReport(const FeedDirectory& feeds, const StreamRegistry& streams, const store::Store& store,
               std::string store_path, std::string server_version, absl::Time started);

  // Empty feed: all feeds. What does not fit into one message is left out (FitStatus).
  // FEED_UNKNOWN.
  absl::StatusOr<v1::GetStatusResponse> Get(std::string_view feed) const;
  // All feeds, with nothing left out: for readers in this process.
  v1::GetStatusResponse Everything() const;
  // Asks the disk how full it is, which may take as long as the disk likes; Get answers with what
  // was found last. The constructor does it once.
  void SampleDisk();

  // Empty feed: the streams of all. FEED_UNKNOWN.
  absl::StatusOr<v1::ListStreamsResponse> ListStreams(std::string_view feed) const;

 private:
  v1::FeedStatus StatusOf(const Feed& feed) const;
  void AddServer(v1::GetStatusResponse* response) const;

  const FeedDirectory& feeds_;
  const StreamRegistry& streams_;
  const store::Store& store_;
  const std::string store_path_;
  const std::string server_version_;
  const absl::Time started_;
  std::atomic<uint64_t> disk_bytes_ = 0;
  std::atomic<uint64_t> disk_free_bytes_ = 0;
};

}  // namespace tidemark
