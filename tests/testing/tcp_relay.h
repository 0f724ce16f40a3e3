// Stands between clients and a server on 127.0.0.1: carries what the server says as slowly as a
// test wants, a thin line on a machine that has none, and what a client says when the test lets it.
//
// Thread rule: safe from any thread, but for the destructor. Whatever is on its way then is lost.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace tidemark::testing {

class TcpRelay {
 public:
  // Is shown each piece of what a client says, before the server has it, on a thread of that
  // connection, and may wait. False: the connection is cut, and the server never gets the piece.
  using Gate = std::function<bool(std::string_view said)>;

  // A gate that waits is to be opened before the relay goes.
  static absl::StatusOr<std::unique_ptr<TcpRelay>> Start(uint16_t server_port, Gate gate = nullptr);
  ~TcpRelay();
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  uint16_t port() const { return port_; }
  // Of each connection, from the server to the client; 0 (the default): as fast as it goes.
  void SetBytesPerSecond(uint64_t rate);
  // From the server to the clients, so far.
  uint64_t bytes_carried() const { return bytes_carried_; }

 private:
  struct Connection {
    int client = -1;
    int server = -1;
    std::thread up;
    std::thread down;
  };

  TcpRelay(int listener, uint16_t port, uint16_t server_port, Gate gate);
  void Accept();
  void CarryUp(Connection* connection);
  void CarryDown(Connection* connection);
  // False when the relay ends. Waits as long as `bytes` take.
  bool WaitForTurn(uint64_t bytes);

  const int listener_;
  const uint16_t port_;
  const uint16_t server_port_;
  const Gate gate_;
  std::atomic<uint64_t> bytes_carried_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t rate_ = 0;                                   // guarded by mutex_
  bool stopping_ = false;                               // guarded by mutex_
  std::list<std::unique_ptr<Connection>> connections_;  // guarded by mutex_
  std::thread acceptor_;
};

}  // namespace tidemark::testing
