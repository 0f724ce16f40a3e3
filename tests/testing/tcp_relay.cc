#include "tests/testing/tcp_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/testing/free_port.h"

namespace tidemark::testing {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
// A slow line carries small pieces, this many a second.
constexpr uint64_t kPiecesPerSecond = 50;
// What the kernel holds of the server's words beside the pieces: little.
constexpr int kReceiveBufferBytes = 64 << 10;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool WriteAll(int to, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = send(to, data, size, MSG_NOSIGNAL);
    if (written <= 0) return false;
    data += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

void CloseBoth(int first, int second) {
  shutdown(first, SHUT_RDWR);
  shutdown(second, SHUT_RDWR);
}

// A page of a result comes in several pieces: none of them waits for a word on the one before.
void SendAtOnce(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpRelay>> TcpRelay::Start(uint16_t server_port, Gate gate) {
  const uint16_t port = FreePort();
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (listener < 0 ||
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 16) != 0) {
    const absl::Status status = absl::ErrnoToStatus(errno, "the relay cannot listen");
    close(listener);
    return status;
  }
  return std::unique_ptr<TcpRelay>(new TcpRelay(listener, port, server_port, std::move(gate)));
}

TcpRelay::TcpRelay(int listener, uint16_t port, uint16_t server_port, Gate gate)
    : listener_(listener),
      port_(port),
      server_port_(server_port),
      gate_(std::move(gate)),
      acceptor_([this] { Accept(); }) {}

TcpRelay::~TcpRelay() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  for (const auto& connection : connections_) {
    CloseBoth(connection->client, connection->server);
    connection->up.join();
    connection->down.join();
    close(connection->client);
    close(connection->server);
  }
}

void TcpRelay::SetBytesPerSecond(uint64_t rate) {
  {
    std::lock_guard lock(mutex_);
    rate_ = rate;
  }
  changed_.notify_all();
}

void TcpRelay::Accept() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(server, SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes, sizeof kReceiveBufferBytes);
    const sockaddr_in address = Loopback(server_port_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(client);
      close(server);
      continue;
    }
    SendAtOnce(client);
    SendAtOnce(server);
    auto connection = std::make_unique<Connection>();
    connection->client = client;
    connection->server = server;
    connection->up = std::thread([this, at = connection.get()] { CarryUp(at); });
    connection->down = std::thread([this, at = connection.get()] { CarryDown(at); });
    std::lock_guard lock(mutex_);
    connections_.push_back(std::move(connection));
  }
}

void TcpRelay::CarryUp(Connection* connection) {
  std::vector<char> piece(kPieceBytes);
  for (ssize_t size; (size = recv(connection->client, piece.data(), piece.size(), 0)) > 0;) {
    const auto bytes = static_cast<size_t>(size);
    if (gate_ && !gate_(std::string_view(piece.data(), bytes))) break;
    if (!WriteAll(connection->server, piece.data(), bytes)) break;
  }
  CloseBoth(connection->client, connection->server);
}

void TcpRelay::CarryDown(Connection* connection) {
  std::vector<char> buffer(kPieceBytes);
  while (true) {
    uint64_t piece = buffer.size();
    {
      std::lock_guard lock(mutex_);
      if (rate_ > 0) piece = std::clamp<uint64_t>(rate_ / kPiecesPerSecond, 1, piece);
    }
    const ssize_t size = recv(connection->server, buffer.data(), piece, 0);
    if (size <= 0 || !WaitForTurn(static_cast<uint64_t>(size)) ||
        !WriteAll(connection->client, buffer.data(), static_cast<size_t>(size))) {
      break;
    }
    bytes_carried_ += static_cast<uint64_t>(size);
  }
  CloseBoth(connection->client, connection->server);
}

bool TcpRelay::WaitForTurn(uint64_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stopping_ && rate_ > 0) {
    const auto turn = begin + std::chrono::microseconds(bytes * 1'000'000 / rate_);
    if (changed_.wait_until(lock, turn) == std::cv_status::timeout) break;
  }
  return !stopping_;
}

}  // namespace tidemark::testing
