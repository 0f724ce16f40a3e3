#include "tests/testing/free_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

namespace tidemark::testing {
namespace {

constexpr int kFirstPort = 20000;
constexpr int kPortCount =
    12000;  // Ends below 32768, where Linux begins to draw ports for outgoing connections.
constexpr int kAttemptsMax = 1000;

// A name in the abstract Unix namespace, which like ports belongs to the network namespace. The
// descriptor stays open on purpose: the name is free again when the process ends, however it ends.
bool Reserve(int port) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("tidemark-test-port-{}", port);
  memcpy(address.sun_path + 1, name.data(),
         name.size());  // The leading zero byte makes it abstract.
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return true;
  close(fd);
  return false;
}

bool CanBind(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  // As servers do: a port with connections of an earlier test in TIME_WAIT is free.
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return bound;
}

}  // namespace

uint16_t FreePort() {
  std::random_device random;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    int port = kFirstPort + static_cast<int>(random() % kPortCount);
    if (Reserve(port) && CanBind(port)) return static_cast<uint16_t>(port);
  }
  fmt::print(stderr, "no free port between {} and {}\n", kFirstPort, kFirstPort + kPortCount);
  abort();
}

}  // namespace tidemark::testing
