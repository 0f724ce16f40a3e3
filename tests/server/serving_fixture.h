// A feed on a real store, served over real gRPC on a loopback port; the test writes the log itself,
// and is the witness (witness.h) of what it appends here.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/reason.h"
#include "server/delivery_pool.h"
#include "server/feed_service.h"
#include "server/stream_registry.h"
#include "server/tail_hub.h"
#include "store/store.h"
#include "tests/server/scripted_source.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/record_reader.h"
#include "tests/testing/recorded_stream.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {

class ServingFixture : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kDeadline{20};
  // Boundary of the initial snapshot.
  static constexpr uint64_t kSnapshotAt = 100;

  ServingFixture();
  ~ServingFixture() override;

  Feed& feed() { return *feed_; }
  store::FeedStore& store() { return feed_->store(); }
  ScriptedSource& source() { return *source_; }
  StreamRegistry& streams() { return streams_; }
  const std::string& address() const { return address_; }
  v1::ChangeFeed::Stub& stub() { return *stub_; }

  // Makes the initial snapshot whole: these rows of public.orders, and the tables known. No rows
  // are kept of tables whose name begins with rowless.
  void MakeSnapshot(const std::vector<int64_t>& ids = {},
                    const std::vector<v1::TableSchema>& also = {});
  // Appends and publishes, as the ingest loop does.
  void Append(std::vector<EncodedTransaction> transactions);
  // One transaction of `runs` runs with one row of `row_bytes` bytes each, through the spool.
  void AppendLarge(uint64_t number, int runs, size_t row_bytes,
                   const v1::TableSchema& table = SampleTable());
  // Progress of an idle source.
  void AppendIdle(uint64_t number);
  void Fold();

  static v1::SubscribeRequest Request();
  v1::SubscribeRequest RequestFrom(uint64_t boundary) const;
  // What a refused Subscribe ends with, as "CODE REASON".
  std::string Refusal(const v1::SubscribeRequest& request);
  static std::string ReasonIn(const grpc::Status& status);
  // Engine numbers of the finished transactions that a recording holds.
  static std::vector<uint64_t> Numbers(const RecordedStream& stream);
  static std::vector<int64_t> RowIds(const RecordedStream& stream);
  // The last record of one kind that came.
  static const v1::SubscribeResponse* Last(const RecordedStream& stream,
                                           v1::SubscribeResponse::RecordCase kind);

 private:
  void OpenFeed();
  // What a subscriber has to be sent of it.
  void Witness(const Position& position, const std::vector<v1::TableSchema>& schemas,
               const std::vector<EncodedRun>& runs);
  Testimony Testify() const;

  ScratchDir scratch_{"serving"};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<store::CursorCodec> cursors_;
  ScriptedSource* source_ = nullptr;
  Feed* feed_ = nullptr;
  std::unique_ptr<FeedDirectory> directory_;
  StreamRegistry streams_{100};
  DeliveryPool pool_{2};
  std::unique_ptr<FeedService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::unique_ptr<v1::ChangeFeed::Stub> stub_;
  uint64_t next_handle_ = 1;
  RecordReader written_;
};

}  // namespace tidemark::testing
