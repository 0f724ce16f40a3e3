// Stands between a server that polls and its PostgreSQL, and holds a poll between two of its pages:
// where a test ends the server, what it has read so far is in its memory alone.
//
// Thread rule: safe from any thread, but for the destructor. One feed at a time polls through it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "absl/status/statusor.h"
#include "tests/testing/tcp_relay.h"

namespace tidemark::testing {

class PageStop {
 public:
  static absl::StatusOr<std::unique_ptr<PageStop>> Start(uint16_t postgres_port);
  ~PageStop();
  PageStop(const PageStop&) = delete;
  PageStop& operator=(const PageStop&) = delete;

  // Where the server finds its source.
  uint16_t port() const { return relay_->port(); }

  // The next poll that asks for this page, counted from 1, does not get it: the pages before it
  // were read. Every table of a poll has a page at least, and a comparison of all rows under the
  // same snapshot counts on. REQUIRES: page > 1.
  void HoldBefore(int page);
  bool held() const;
  // What is held never reaches PostgreSQL: its connection is cut.
  void Release();

 private:
  PageStop() = default;
  // False: the connection is to be cut.
  bool Pass(std::string_view said);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int pages_ = 0;      // guarded by mutex_: asked for since the poll began
  int hold_at_ = 0;    // guarded by mutex_: 0: none
  bool held_ = false;  // guarded by mutex_
  // Its threads use all of the above.
  std::unique_ptr<TcpRelay> relay_;
};

}  // namespace tidemark::testing
