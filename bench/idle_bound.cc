// How long a bounded read takes on a database where nothing happens: from the call with
// until = now to its end with OK. Prints the distribution of two cases: nothing was written since
// the last read, and one row was committed just before the call.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tidemark/v1/feed.grpc.pb.h"

namespace {

namespace v1 = tidemark::v1;
using Clock = std::chrono::steady_clock;

[[noreturn]] void Die(const std::string& what) {
  fmt::print(stderr, "idle_bound: {}\n", what);
  std::exit(1);
}

struct Read {
  double ms = 0;
  uint64_t transactions = 0;
  std::string cursor;
};

Read ReadUntilNow(v1::ChangeFeed::Stub& stub, const std::string& feed, const std::string& cursor) {
  v1::SubscribeRequest request;
  request.set_feed(feed);
  request.mutable_until()->mutable_now();
  if (cursor.empty()) {
    request.mutable_start()->mutable_latest();
  } else {
    request.mutable_start()->set_cursor(cursor);
  }
  Read read;
  const auto began = Clock::now();
  grpc::ClientContext context;
  const auto stream = stub.Subscribe(&context, request);
  for (v1::SubscribeResponse record; stream->Read(&record);) {
    for (const auto& transaction : record.batch().transactions()) {
      read.transactions += transaction.last() ? 1 : 0;
    }
    if (record.has_closing()) read.cursor = record.closing().cursor();
  }
  const grpc::Status status = stream->Finish();
  read.ms = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
  if (!status.ok()) Die(status.error_message());
  return read;
}

std::string Distribution(std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  return fmt::format(R"({{"p50_ms": {:.2f}, "p99_ms": {:.2f}, "max_ms": {:.2f}}})",
                     ms[ms.size() / 2], ms[ms.size() * 99 / 100], ms.back());
}

}  // namespace

// idle_bound CONNINFO SERVER FEED READS
int main(int argc, char** argv) {
  if (argc != 5) Die("usage: idle_bound CONNINFO SERVER FEED READS");
  const std::string feed = argv[3];
  const int reads = std::atoi(argv[4]);
  PGconn* const connection = PQconnectdb(argv[1]);
  if (PQstatus(connection) != CONNECTION_OK) Die(PQerrorMessage(connection));
  const auto stub =
      v1::ChangeFeed::NewStub(grpc::CreateChannel(argv[2], grpc::InsecureChannelCredentials()));
  std::string cursor = ReadUntilNow(*stub, feed, "").cursor;
  std::vector<double> idle;
  std::vector<double> committed;
  for (int i = 0; i < reads; ++i) {
    PGresult* const result = PQexec(connection, "insert into t1 (n) values (1)");
    if (PQresultStatus(result) != PGRES_COMMAND_OK) Die(PQerrorMessage(connection));
    PQclear(result);
    const Read with_row = ReadUntilNow(*stub, feed, cursor);
    if (with_row.transactions != 1) Die("a read up to now did not have the commit before it");
    committed.push_back(with_row.ms);
    const Read nothing = ReadUntilNow(*stub, feed, with_row.cursor);
    if (nothing.transactions != 0) Die("a transaction came twice");
    idle.push_back(nothing.ms);
    cursor = nothing.cursor;
  }
  PQfinish(connection);
  fmt::print(R"({{"idle": {}, "after_a_commit": {}}})"
             "\n",
             Distribution(idle), Distribution(committed));
}
