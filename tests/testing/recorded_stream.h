// Everything that one subscriber was given, over all its streams, and what follows from it.
//
// Knows no gRPC: whoever drives a stream (live_subscriber.h, a test inside the server) reports what
// happens. Reads the records by itself, sharing no code with server or client. When it goes out of
// scope it runs CheckOrdered, CheckWhole, CheckOnce, CheckProgressing, CheckSchemas and CheckGaps
// over the recording and fails the test: no test can forget them.
//
// Thread rule: one thread at a time, to read it as well. Memory: all records, and what was read of
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::testing {

// Text as PostgreSQL prints it with DateStyle ISO and TimeZone UTC; nullopt is NULL; absent columns
// are left out.
using Columns = std::map<std::string, std::optional<std::string>>;

// insert, update, delete, truncate, read. Bools are true and false.
struct RecordedChange {
  std::string position;
  uint64_t sequence = 0;
  std::string op;
  std::string table;  // schema.table, never quoted
  Columns key;        // empty where the table has no key
  Columns columns;    // the row after the change; of a delete its key
  Columns before;
  bool key_change = false;
  std::vector<std::string> absent;  // columns of the row after the change

  friend bool operator==(const RecordedChange&, const RecordedChange&) = default;
};

struct RecordedTransaction {
  std::string position;
  std::string source_transaction_id;
  std::vector<RecordedChange> changes;
  std::string cursor;  // empty while unfinished
  uint64_t changes_total = 0;
  uint64_t changes_delivered = 0;
  bool finished = false;
};

struct RecordedEvent {
  v1::SubscribeResponse record;
  std::chrono::milliseconds waited{};  // how long the reader stood waiting for it
};

class RecordReader;

// One stream, from connect to disconnect.
struct RecordedSegment {
  v1::SubscribeRequest request;
  std::vector<RecordedEvent> events;
  bool ended = false;
  std::string end;  // "OK", or why it ended

  // What the first so many events say: every check asks for it.
  mutable std::shared_ptr<RecordReader> reader = nullptr;
  mutable size_t events_read = 0;
};

// The rows of a table by the text of their key; of one without a key by all that they hold, equal
// ones as often as they are there.
using FoldedRows = std::map<std::string, std::map<std::string, Columns>>;

class RecordedStream {
 public:
  // `name` stands in failure messages.
  explicit RecordedStream(std::string name) : name_(std::move(name)) {}
  ~RecordedStream();
  RecordedStream(const RecordedStream&) = delete;
  RecordedStream& operator=(const RecordedStream&) = delete;

  void Connected(const v1::SubscribeRequest& request);
  void Record(const v1::SubscribeResponse& record, std::chrono::milliseconds waited = {});
  void Disconnected(std::string_view end);

  const std::string& name() const { return name_; }
  const std::vector<RecordedSegment>& segments() const { return segments_; }
  // Of the last boundary that was handled; empty before there is one (also inside a bootstrap).
  const std::string& resume_cursor() const { return resume_cursor_; }
  uint64_t finished_transactions() const { return finished_transactions_; }

  // The feed is moved from polling to the log meanwhile: once, a generation begins without a Gap.
  void MovesToTheLog() { moves_to_the_log_ = true; }
  bool moves_to_the_log() const { return moves_to_the_log_; }

  // For tests that feed a violation to a checker on purpose.
  void DoNotCheck() { checked_ = false; }
  bool checked() const { return checked_; }

 private:
  void NoteCursors(const v1::SubscribeResponse& record);

  const std::string name_;
  std::vector<RecordedSegment> segments_;
  std::string resume_cursor_;
  bool in_bootstrap_ = false;
  uint64_t finished_transactions_ = 0;
  bool checked_ = true;
  bool moves_to_the_log_ = false;
};

// The transactions of one segment in order, until it is recorded further; the last one may be
// unfinished. An error says how the records break the rules of proto/tidemark/v1.
absl::StatusOr<std::span<const RecordedTransaction>> TransactionsOf(const RecordedSegment& segment);
// The rows of a bootstrap, as changes of op read; as long as the transactions.
absl::StatusOr<std::span<const RecordedChange>> RowsOf(const RecordedSegment& segment);

// What a client that stores the cursor with its effects has seen: finished transactions of all
// segments, in order.
absl::StatusOr<std::vector<RecordedTransaction>> SeenTransactions(const RecordedStream& stream);
// The rows of the last bootstrap with all that came behind it.
absl::StatusOr<FoldedRows> Fold(const RecordedStream& stream);

std::string Describe(const RecordedChange& change);
std::string DescribeColumns(const Columns& columns);

}  // namespace tidemark::testing
