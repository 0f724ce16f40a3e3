// A subscriber that does the least a subscriber must: takes a feed from its oldest point until it
// has seen a number of changes, and prints how many came, how long the first and the last took
// since the start of the process, and an order-sensitive checksum over (position, sequence,
// change). Also says how much CPU it used itself.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tidemark/v1/feed.grpc.pb.h"

namespace {

using tidemark::v1::SubscribeRequest;
using tidemark::v1::SubscribeResponse;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kHashPrime = 1099511628211ull;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

struct Tally {
  uint64_t changes = 0;
  uint64_t transactions = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 14695981039346656037ull;

  void Mix(uint64_t value) { checksum = (checksum ^ value) * kHashPrime; }
  void Take(const SubscribeResponse& response) {
    bytes += response.ByteSizeLong();
    for (const auto& transaction : response.batch().transactions()) {
      transactions += transaction.last();
      for (const auto& run : transaction.runs()) {
        for (const auto& change : run.changes()) {
          ++changes;
          Mix(run.first_sequence() + change.ordinal());
          for (const char c : transaction.position()) Mix(static_cast<unsigned char>(c));
          if (change.after_size() > 0) Mix(static_cast<uint64_t>(change.after(0).integer()));
        }
      }
    }
  }
};

// One stream, until the wanted number of changes came or it ended.
void Drain(tidemark::v1::ChangeFeed::Stub& stub, const std::string& feed, uint64_t wanted,
           Tally* tally, Clock::time_point* first) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  SubscribeRequest request;
  request.set_feed(feed);
  request.mutable_start()->mutable_earliest();
  request.set_label("bench");
  const auto reader = stub.Subscribe(&context, request);
  SubscribeResponse response;
  while (tally->changes < wanted && reader->Read(&response)) {
    tally->Take(response);
    if (tally->changes > 0 && *first == Clock::time_point()) *first = Clock::now();
  }
  context.TryCancel();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: drain_subscriber HOST:PORT FEED CHANGES\n");
    return 64;
  }
  const auto start = Clock::now();
  const uint64_t wanted = std::strtoull(argv[3], nullptr, 10);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
  const auto stub = tidemark::v1::ChangeFeed::NewStub(
      grpc::CreateCustomChannel(argv[1], grpc::InsecureChannelCredentials(), arguments));
  Tally tally;
  Clock::time_point first;
  // A stream that breaks begins at the oldest point again, so a tally is only ever that of one
  // stream.
  for (int attempt = 0; tally.changes < wanted && attempt < 100; ++attempt) {
    tally = Tally();
    Drain(*stub, argv[2], wanted, &tally, &first);
  }
  const auto end = Clock::now();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(R"({{"changes":{},"transactions":{},"bytes":{},"checksum":"{:016x}",)"
             R"("first_s":{:.3f},"last_s":{:.3f},"cpu_s":{:.3f}}})"
             "\n",
             tally.changes, tally.transactions, tally.bytes, tally.checksum, Seconds(first - start),
             Seconds(end - start),
             usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                 1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
  return tally.changes == wanted ? 0 : 1;
}
