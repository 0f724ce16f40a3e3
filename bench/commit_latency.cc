// From commit to client: one writer commits single-row transactions at a fixed rate; a bare libpq
// receiver on a slot of its own and a Tidemark subscriber on the same transactions note when each
// arrives, by the same clock. Prints both distributions and the ratio. Others may write to other
// tables: the publication of the receiver holds public.t1 alone, and so does the subscriber's
// filter.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tidemark/v1/feed.grpc.pb.h"

namespace {

using Clock = std::chrono::steady_clock;
using tidemark::v1::SubscribeResponse;

int64_t NowNs() { return Clock::now().time_since_epoch().count(); }

[[noreturn]] void Die(const std::string& what) {
  fmt::print(stderr, "commit_latency: {}\n", what);
  std::exit(1);
}

// When each transaction returned from commit, and when each side saw it; index is the order of
// commits, which one writer makes the order of arrival too.
struct Times {
  explicit Times(size_t count) : committed(count), received(count), subscribed(count) {}
  std::vector<int64_t> committed;
  std::vector<int64_t> received;
  std::vector<int64_t> subscribed;
};

PGconn* Connect(const std::string& conninfo) {
  PGconn* connection = PQconnectdb(conninfo.c_str());
  if (PQstatus(connection) != CONNECTION_OK) Die(PQerrorMessage(connection));
  return connection;
}

void Exec(PGconn* connection, const std::string& sql) {
  PGresult* result = PQexec(connection, sql.c_str());
  const auto status = PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_COPY_BOTH)
    Die(PQerrorMessage(connection));
  PQclear(result);
}

// Opens the receiver's stream on a temporary slot: from here on it sees every commit.
PGconn* OpenReceiver(const std::string& conninfo, const std::string& publication) {
  PGconn* connection = Connect(conninfo + " replication=database");
  Exec(connection,
       "CREATE_REPLICATION_SLOT commit_latency TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')");
  Exec(connection,
       "START_REPLICATION SLOT commit_latency LOGICAL 0/0 (proto_version '1', publication_names '" +
           publication + "')");
  return connection;
}

// Every Commit message ('C' behind the 25 bytes of the frame's header) is one transaction.
void Receive(PGconn* connection, std::vector<int64_t>* seen) {
  size_t count = 0;
  while (count < seen->size()) {
    char* message = nullptr;
    const int length = PQgetCopyData(connection, &message, 1);
    if (length > 25 && message[0] == 'w' && message[25] == 'C') (*seen)[count++] = NowNs();
    if (length > 0) {
      PQfreemem(message);
      continue;
    }
    if (length < 0) Die("the receiver's stream ended");
    pollfd waiter{PQsocket(connection), POLLIN, 0};
    poll(&waiter, 1, 1000);
    if (PQconsumeInput(connection) == 0) Die(PQerrorMessage(connection));
  }
}

void Subscribe(const std::string& server, const std::string& feed, std::atomic<bool>* opened,
               std::vector<int64_t>* seen) {
  const auto stub = tidemark::v1::ChangeFeed::NewStub(
      grpc::CreateChannel(server, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  tidemark::v1::SubscribeRequest request;
  request.set_feed(feed);
  request.mutable_start()->mutable_latest();
  request.mutable_filter()->add_tables("public.t1");
  const auto reader = stub->Subscribe(&context, request);
  SubscribeResponse response;
  size_t count = 0;
  while (count < seen->size() && reader->Read(&response)) {
    if (response.has_opened()) *opened = true;
    for (const auto& transaction : response.batch().transactions()) {
      // One row a commit, and several commits a transaction where the source is polled.
      for (const auto& run : transaction.runs()) {
        for (int i = 0; i < run.changes_size() && count < seen->size(); ++i) {
          (*seen)[count++] = NowNs();
        }
      }
    }
  }
  if (count < seen->size()) Die("the subscriber's stream ended: " + response.ShortDebugString());
  context.TryCancel();
}

struct Distribution {
  double p50, p99, p999;
};

Distribution Of(const std::vector<int64_t>& committed, const std::vector<int64_t>& seen) {
  std::vector<double> us(committed.size());
  for (size_t i = 0; i < us.size(); ++i) us[i] = static_cast<double>(seen[i] - committed[i]) / 1000;
  std::sort(us.begin(), us.end());
  const auto at = [&](double q) {
    return us[std::min(us.size() - 1, static_cast<size_t>(q * us.size()))];
  };
  return {at(0.5), at(0.99), at(0.999)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    fmt::print(
        stderr,
        "usage: commit_latency CONNINFO PUBLICATION HOST:PORT FEED TRANSACTIONS PER_SECOND\n");
    return 64;
  }
  const std::string conninfo = argv[1];
  Times times(std::strtoull(argv[5], nullptr, 10));
  const auto period = std::chrono::nanoseconds(static_cast<int64_t>(1e9 / std::atof(argv[6])));
  PGconn* receiver_connection = OpenReceiver(conninfo, argv[2]);
  std::atomic<bool> opened = false;
  std::thread receiver([&] { Receive(receiver_connection, &times.received); });
  std::thread subscriber([&] { Subscribe(argv[3], argv[4], &opened, &times.subscribed); });
  PGconn* writer = Connect(conninfo);
  while (!opened) std::this_thread::yield();
  auto next = Clock::now();
  for (int64_t& committed : times.committed) {
    std::this_thread::sleep_until(next += period);
    Exec(writer,
         "INSERT INTO t1 (n, payload, amount, at) VALUES (1, 'commit latency', 1.5, now())");
    committed = NowNs();
  }
  receiver.join();
  subscriber.join();
  PQfinish(writer);
  PQfinish(receiver_connection);
  const Distribution bare = Of(times.committed, times.received);
  const Distribution ours = Of(times.committed, times.subscribed);
  fmt::print(R"({{"bare_us":{{"p50":{:.0f},"p99":{:.0f},"p999":{:.0f}}},)"
             R"("tidemark_us":{{"p50":{:.0f},"p99":{:.0f},"p999":{:.0f}}},)"
             R"("ratio_p50":{:.2f},"ratio_p99":{:.2f}}})"
             "\n",
             bare.p50, bare.p99, bare.p999, ours.p50, ours.p99, ours.p999, ours.p50 / bare.p50,
             ours.p99 / bare.p99);
  return 0;
}
