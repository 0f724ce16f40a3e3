#include "tests/server/serving_fixture.h"

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/limits.h"

namespace tidemark::testing {

ServingFixture::ServingFixture() {
  OpenFeed();
  service_ = std::make_unique<FeedService>(*directory_, streams_, pool_, "test",
                                           absl::Milliseconds(limits::client_stall_default_ms));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
  CallWitness(address_, "shop", [this] { return Testify(); });
  stub_ =
      v1::ChangeFeed::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
}

ServingFixture::~ServingFixture() {
  CallWitness(address_, "shop", nullptr);
  server_->Shutdown(std::chrono::system_clock::now());
  pool_.Stop();
}

void ServingFixture::OpenFeed() {
  store::StoreOptions options;
  options.path = (scratch_ / "store").string();
  options.fold_in_background = false;
  auto store = store::Store::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  store_ = *std::move(store);
  auto cursors = store::CursorCodec::Open((scratch_ / "keys").string());
  ASSERT_TRUE(cursors.ok()) << cursors.status();
  cursors_ = std::make_unique<store::CursorCodec>(*std::move(cursors));
  auto opened = store_->OpenFeed("shop", "scripted");
  ASSERT_TRUE(opened.ok()) << opened.status();
  (*opened)->SetRowsPolicy(
      [](const v1::TableSchema& schema) { return schema.table_name().rfind("rowless", 0) != 0; });

  Feed::Parts parts;
  parts.config.set_name("shop");
  parts.store = *opened;
  parts.cursors = cursors_.get();
  auto source = std::make_unique<ScriptedSource>();
  source_ = source.get();
  source_->SetState(v1::SOURCE_STATE_STREAMING);
  parts.source = std::move(source);
  parts.tail = std::make_unique<TailHub>(
      [cursors = cursors_.get(), feed = *opened](const Position& at) {
        return cursors->Encode(feed->record().identity(), at);
      },
      limits::ring_bytes_max);
  parts.tail->Start((*opened)->head());
  std::vector<std::unique_ptr<Feed>> feeds;
  feeds.push_back(std::make_unique<Feed>(std::move(parts)));
  feed_ = feeds.front().get();
  feed_->capture().Running();
  directory_ = std::make_unique<FeedDirectory>(std::move(feeds));
}

void ServingFixture::MakeSnapshot(const std::vector<int64_t>& ids,
                                  const std::vector<v1::TableSchema>& also) {
  ASSERT_TRUE(store().BeginSnapshot().ok());
  store::AppendBatch batch;
  batch.schemas = also;
  batch.schemas.push_back(SampleTable());
  if (!ids.empty()) {
    ASSERT_TRUE(store().AddSnapshotRows(batch.schemas, {SampleRun(0, ids, v1::OP_READ)}).ok());
  }
  batch.snapshot_whole = At(kSnapshotAt);
  batch.checkpoint = CheckpointAt(kSnapshotAt);
  ASSERT_TRUE(store().Append(batch).ok());
  ASSERT_TRUE(store().Sync().ok());
  feed().tail().Publish({}, store().head());
}

void ServingFixture::Append(std::vector<EncodedTransaction> transactions) {
  store::AppendBatch batch;
  batch.schemas = {SampleTable(), SampleTable("items"), SampleTable("rowless")};
  batch.transactions = std::move(transactions);
  for (const EncodedTransaction& transaction : batch.transactions) {
    Witness(transaction.position, batch.schemas, transaction.runs);
  }
  batch.checkpoint.emplace(CheckpointAt(batch.transactions.back().position.engine_low()));
  auto prepared = feed().tail().Prepare(batch);
  const auto status = store().Append(batch);
  ASSERT_TRUE(status.ok()) << status;
  feed().tail().Publish(std::move(prepared), store().head());
}

void ServingFixture::AppendLarge(uint64_t number, int runs, size_t row_bytes,
                                 const v1::TableSchema& table) {
  const uint64_t handle = next_handle_++;
  store::AppendBatch batch;
  store::SpooledCommit commit{.handle = handle, .position = At(number)};
  std::vector<EncodedRun> written;
  for (int i = 0; i < runs; ++i) {
    v1::Run run;
    run.add_schema_ids(table.schema_id());
    v1::Change* change = run.add_changes();
    change->set_op(v1::OP_INSERT);
    change->add_after()->set_integer(i);
    change->add_after()->set_text(std::string(row_bytes, static_cast<char>('a' + i % 26)));
    const EncodedRun encoded{static_cast<uint64_t>(i), 0, 1, run.SerializeAsString()};
    commit.record.set_bytes(commit.record.bytes() + encoded.bytes.size());
    ASSERT_TRUE(store().SpoolParts(handle, {table}, {encoded}).ok());
    written.push_back(encoded);
  }
  Witness(At(number), {table}, written);
  commit.record.set_changes(runs);
  commit.record.set_commit_time_us(static_cast<int64_t>(number) * 1'000'000);
  commit.record.add_schema_ids(table.schema_id());
  batch.spooled.push_back(commit);
  batch.checkpoint = CheckpointAt(number);
  auto prepared = feed().tail().Prepare(batch);
  const auto status = store().Append(batch);
  ASSERT_TRUE(status.ok()) << status;
  feed().tail().Publish(std::move(prepared), store().head());
}

void ServingFixture::Witness(const Position& position, const std::vector<v1::TableSchema>& schemas,
                             const std::vector<EncodedRun>& runs) {
  v1::SubscribeResponse record;
  for (const v1::TableSchema& schema : schemas) {
    *record.mutable_table_schema() = schema;
    ASSERT_TRUE(written_.Read(record).ok());
  }
  v1::Transaction* const transaction = record.mutable_batch()->add_transactions();
  transaction->set_position(position.Text());
  transaction->set_last(true);
  for (const EncodedRun& encoded : runs) {
    v1::Run* const run = transaction->add_runs();
    ASSERT_TRUE(run->ParseFromString(encoded.bytes));
    run->set_first_sequence(encoded.first_sequence);
  }
  const absl::Status read = written_.Read(record);
  ASSERT_TRUE(read.ok()) << read;
}

Testimony ServingFixture::Testify() const {
  Testimony testimony;
  for (const RecordedTransaction& transaction : written_.transactions()) {
    const auto position = Position::FromText(transaction.position);
    if (position->generation() != 1 || position->ordinal() != 0) continue;
    OracleTransaction& committed = testimony.transactions.emplace_back();
    committed.end_lsn = position->engine_low();
    for (const RecordedChange& change : transaction.changes) {
      committed.changes.push_back({change.op, change.table, change.columns});
      testimony.tables.insert(change.table);
    }
  }
  return testimony;
}

void ServingFixture::AppendIdle(uint64_t number) {
  store::AppendBatch batch;
  batch.checkpoint = CheckpointAt(number);
  ASSERT_TRUE(store().Append(batch).ok());
  feed().tail().Publish({}, store().head());
}

void ServingFixture::Fold() {
  ASSERT_TRUE(store().Sync().ok());
  for (auto folded = store().FoldOnce();; folded = store().FoldOnce()) {
    ASSERT_TRUE(folded.ok()) << folded.status();
    if (!*folded) return;
  }
}

v1::SubscribeRequest ServingFixture::Request() {
  v1::SubscribeRequest request;
  request.set_feed("shop");
  return request;
}

v1::SubscribeRequest ServingFixture::RequestFrom(uint64_t boundary) const {
  v1::SubscribeRequest request = Request();
  request.mutable_start()->set_cursor(feed_->Cursor(At(boundary)));
  return request;
}

std::string ServingFixture::Refusal(const v1::SubscribeRequest& request) {
  grpc::ClientContext context;
  auto reader = stub_->Subscribe(&context, request);
  v1::SubscribeResponse record;
  if (reader->Read(&record)) {
    context.TryCancel();
    while (reader->Read(&record)) {
    }
    reader->Finish();
    return "not refused";
  }
  const grpc::Status status = reader->Finish();
  return std::to_string(status.error_code()) + " " + ReasonIn(status);
}

std::string ServingFixture::ReasonIn(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details_size() != 1 ||
      !details.details(0).UnpackTo(&info)) {
    return "no reason: " + status.error_message();
  }
  return info.reason();
}

std::vector<uint64_t> ServingFixture::Numbers(const RecordedStream& stream) {
  std::vector<uint64_t> numbers;
  const auto seen = SeenTransactions(stream);
  EXPECT_TRUE(seen.ok()) << seen.status();
  if (!seen.ok()) return numbers;
  for (const RecordedTransaction& transaction : *seen) {
    numbers.push_back(Position::FromText(transaction.position)->engine_low());
  }
  return numbers;
}

std::vector<int64_t> ServingFixture::RowIds(const RecordedStream& stream) {
  std::vector<int64_t> ids;
  const auto rows = RowsOf(stream.segments().back());
  EXPECT_TRUE(rows.ok()) << rows.status();
  if (!rows.ok()) return ids;
  for (const RecordedChange& row : *rows) ids.push_back(std::stoll(*row.key.at("id")));
  return ids;
}

const v1::SubscribeResponse* ServingFixture::Last(const RecordedStream& stream,
                                                  v1::SubscribeResponse::RecordCase kind) {
  if (stream.segments().empty()) return nullptr;
  const auto& events = stream.segments().back().events;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->record.record_case() == kind) return &event->record;
  }
  return nullptr;
}

}  // namespace tidemark::testing
