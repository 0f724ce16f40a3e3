// CPU time from the bytes that a server sends to the runs that are stored: what one small
// transaction costs, and what one row of a large one costs. The row is that of the drains (BENCH
// load): bigint, int, 85 bytes of text, numeric, timestamptz.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/row_encoder.h"

namespace tidemark::capture::postgres {
namespace {

void AppendBig(uint64_t value, int bytes, std::string* out) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendColumn(const std::string& text, std::string* out) {
  out->push_back('t');
  AppendBig(text.size(), 4, out);
  out->append(text);
}

std::string BeginBytes() { return "B" + std::string(20, '\1'); }
std::string CommitBytes() { return "C" + std::string(1, '\0') + std::string(24, '\1'); }

std::string InsertBytes() {
  std::string message = "I";
  AppendBig(16384, 4, &message);
  message.push_back('N');
  AppendBig(5, 2, &message);
  AppendColumn("1234567", &message);
  AppendColumn("42", &message);
  AppendColumn(std::string(85, 'x'), &message);
  AppendColumn("12345.6789", &message);
  AppendColumn("2026-03-01 12:00:00.123456+00", &message);
  return message;
}

RowShape Shape() {
  const TypeCatalog catalog;
  RowShape shape{.schema_id = 1, .table_name = "public.t1"};
  for (const uint32_t oid : {20, 23, 25, 1700, 1184}) {
    shape.types.push_back(catalog.Resolve(oid));
    shape.column_names.push_back("c");
  }
  shape.key_columns = {0};
  return shape;
}

void Insert(const std::string& bytes, const RowShape& shape, PgoutputDecoder* decoder,
            RowEncoder* encoder, TransactionBuilder* builder) {
  const auto message = decoder->Decode(bytes);
  const auto& insert = std::get<InsertMessage>(*message);
  if (!encoder->AddInsert(shape, insert, builder).ok()) std::abort();
}

void SmallTransaction(benchmark::State& state) {
  const std::string begin = BeginBytes();
  const std::string insert = InsertBytes();
  const std::string commit = CommitBytes();
  const RowShape shape = Shape();
  PgoutputDecoder decoder;
  RowEncoder encoder;
  TransactionBuilder builder;
  for (auto _ : state) {
    benchmark::DoNotOptimize(decoder.Decode(begin));
    builder.Begin();
    Insert(insert, shape, &decoder, &encoder, &builder);
    const auto message = decoder.Decode(commit);
    v1::CommitRecord record;
    record.set_commit_time_us(std::get<CommitMessage>(*message).commit_time_us);
    record.set_source_transaction_id("1234567");
    benchmark::DoNotOptimize(
        builder.Finish(Position::Of(1, std::get<CommitMessage>(*message).end_lsn), record));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(SmallTransaction);

void RowOfLargeTransaction(benchmark::State& state) {
  const std::string insert = InsertBytes();
  const RowShape shape = Shape();
  PgoutputDecoder decoder;
  RowEncoder encoder;
  TransactionBuilder builder;
  benchmark::DoNotOptimize(decoder.Decode(BeginBytes()));
  builder.Begin();
  for (auto _ : state) {
    Insert(insert, shape, &decoder, &encoder, &builder);
    if (builder.PassesBound()) benchmark::DoNotOptimize(builder.TakeFullRuns());
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(insert.size()));
}
BENCHMARK(RowOfLargeTransaction);

void DecodeInsert(benchmark::State& state) {
  const std::string insert = InsertBytes();
  PgoutputDecoder decoder;
  benchmark::DoNotOptimize(decoder.Decode(BeginBytes()));
  for (auto _ : state) benchmark::DoNotOptimize(decoder.Decode(insert));
}
BENCHMARK(DecodeInsert);

}  // namespace
}  // namespace tidemark::capture::postgres

BENCHMARK_MAIN();
