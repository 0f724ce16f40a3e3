// Messages that a real server sent, as they were recorded in tests/fixtures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/row_encoder.h"
#include "proto/reason.h"
#include "tests/testing/built_paths.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;

struct Recorded {
  Lsn lsn = 0;
  std::string bytes;
};

std::vector<Recorded> Recording(const std::string& name) {
  std::ifstream file(tidemark::testing::SourceDir() / "tests/fixtures" / name);
  std::vector<Recorded> messages;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.find(' ');
    messages.push_back(
        {*ParseLsn(line.substr(0, space)), absl::HexStringToBytes(line.substr(space + 1))});
  }
  EXPECT_FALSE(messages.empty()) << name;
  return messages;
}

// Runs one recording through decoder, encoder and builder, as a source does.
class Replay {
 public:
  void Decode(const Recorded& recorded) {
    const auto message = decoder_.Decode(recorded.bytes);
    ASSERT_TRUE(message.ok()) << message.status();
    std::visit([&](const auto& body) { On(body, recorded.lsn); }, *message);
  }

  std::vector<EncodedTransaction> transactions;
  std::vector<std::string> outside;

 private:
  void On(const BeginMessage& begin, Lsn) {
    begin_ = begin;
    builder_.Begin();
  }
  void On(const CommitMessage& commit, Lsn lsn) {
    // E1, E2: the end is not in Begin, and not a constant behind the commit record's start.
    EXPECT_EQ(commit.commit_lsn, begin_.commit_lsn);
    EXPECT_GT(commit.end_lsn, commit.commit_lsn);
    EXPECT_EQ(commit.commit_time_us, begin_.commit_time_us);
    // E6: what the server reports for a commit is its end.
    EXPECT_EQ(lsn, commit.end_lsn);
    v1::CommitRecord record;
    record.set_source_transaction_id(std::to_string(begin_.xid));
    record.set_commit_lsn(commit.commit_lsn);
    transactions.push_back(builder_.Finish(Position::Of(1, commit.end_lsn), record));
  }
  void On(const RelationMessage& relation, Lsn) {
    RowShape shape{.schema_id = relation.oid, .table_name = std::string(relation.table_name)};
    for (const RelationColumn& column : relation.columns) {
      if (column.in_identity && relation.replica_identity == 'd') {
        shape.key_columns.push_back(shape.types.size());
      }
      shape.types.push_back(catalog_.Resolve(column.type_oid));
      shape.column_names.emplace_back(column.name);
    }
    shapes_[relation.oid] = std::move(shape);
  }
  void On(const InsertMessage& insert, Lsn) {
    ASSERT_TRUE(encoder_.AddInsert(shapes_[insert.relation], insert, &builder_).ok());
  }
  void On(const UpdateMessage& update, Lsn) {
    ASSERT_TRUE(encoder_.AddUpdate(shapes_[update.relation], update, &builder_).ok());
  }
  void On(const DeleteMessage& removal, Lsn) {
    ASSERT_TRUE(encoder_.AddDelete(shapes_[removal.relation], removal, &builder_).ok());
  }
  void On(const TruncateMessage& truncate, Lsn) {
    EXPECT_TRUE(truncate.cascade && truncate.restart_identity);
    for (const uint32_t relation : truncate.relations) {
      encoder_.AddTruncate(shapes_[relation], &builder_);
    }
  }
  void On(const LogicalMessage& message, Lsn) {
    if (!message.transactional) outside.emplace_back(message.content);
  }
  void On(const TypeMessage& type, Lsn) { EXPECT_EQ(type.schema_name, "public"); }
  template <typename Other>
  void On(const Other&, Lsn) {
    ADD_FAILURE() << "not in a recording of protocol version 1";
  }

  PgoutputDecoder decoder_;
  RowEncoder encoder_;
  TransactionBuilder builder_;
  TypeCatalog catalog_;
  BeginMessage begin_;
  std::map<uint32_t, RowShape> shapes_;
};

std::vector<v1::Change> ChangesOf(const EncodedTransaction& transaction) {
  std::vector<v1::Change> changes;
  uint64_t sequence = 0;
  for (const EncodedRun& run : transaction.runs) {
    v1::Run parsed;
    EXPECT_TRUE(parsed.ParseFromString(run.bytes));
    for (const v1::Change& change : parsed.changes()) {
      EXPECT_EQ(run.first_sequence + change.ordinal(), sequence++);
      changes.push_back(change);
    }
  }
  return changes;
}

// "insert 50", by the first column of the row or of the key.
std::vector<std::string> Shown(const EncodedTransaction& transaction) {
  std::vector<std::string> shown;
  for (const v1::Change& change : ChangesOf(transaction)) {
    const auto& image = change.after_size() != 0 ? change.after() : change.key();
    shown.push_back(v1::Op_Name(change.op()).substr(3) +
                    (image.empty() || !image.Get(0).has_integer()
                         ? ""
                         : " " + std::to_string(image.Get(0).integer())));
  }
  return shown;
}

TEST(RecordedStream, TransactionsOfVersionOne) {
  Replay replay;
  for (const Recorded& recorded : Recording("pgoutput_v1.hex")) replay.Decode(recorded);
  const auto& transactions = replay.transactions;
  ASSERT_EQ(transactions.size(), 16u);
  for (size_t i = 1; i < transactions.size(); ++i) {
    EXPECT_LT(transactions[i - 1].position, transactions[i].position);
  }
  EXPECT_THAT(Shown(transactions[0]), ElementsAre("INSERT 1"));
  // proves B041
  EXPECT_THAT(Shown(transactions[1]), ElementsAre("INSERT 50", "INSERT 52", "INSERT 53"));
  // proves B001, R44
  EXPECT_THAT(Shown(transactions[2]), ElementsAre("UPDATE 1"));
  EXPECT_EQ(ChangesOf(transactions[2])[0].after(2).kind_case(), v1::Value::KIND_NOT_SET);
  // proves B005, R45
  EXPECT_THAT(Shown(transactions[3]), ElementsAre("DELETE 1", "INSERT 2"));
  // proves B011, B047
  EXPECT_THAT(Shown(transactions[4]), ElementsAre("UPDATE 2", "DELETE 50", "INSERT 50"));
  EXPECT_EQ(ChangesOf(transactions[5])[0].after(1).decimal(), "1.50");
  // proves B009
  EXPECT_THAT(Shown(transactions[6]), ElementsAre("INSERT 1", "INSERT 1", "INSERT"));
  EXPECT_THAT(Shown(transactions[8]), ElementsAre("DELETE"));
  EXPECT_TRUE(ChangesOf(transactions[8])[0].before(0).has_null());
  // Rows of a COPY, which share one LSN (E5): the sequence tells them apart.
  EXPECT_THAT(Shown(transactions[9]), ElementsAre("INSERT 100", "INSERT 101", "INSERT 102"));
  // proves B051
  EXPECT_THAT(Shown(transactions[12]), ElementsAre("DELETE 1", "DELETE 10"));
  // proves B016, B023, R46
  EXPECT_THAT(Shown(transactions[13]), ElementsAre("INSERT 3", "TRUNCATE", "TRUNCATE", "INSERT 4"));
  // proves R51: the schema changes inside the transaction that uses it.
  EXPECT_EQ(ChangesOf(transactions[14])[0].after_size(), 4);
  // proves E10
  EXPECT_THAT(replay.outside, ElementsAre("payload"));
}

// proves R07: captured twice, byte for byte.
TEST(RecordedStream, RecaptureGivesEqualBytes) {
  Replay first;
  Replay second;
  for (const Recorded& recorded : Recording("pgoutput_v1.hex")) first.Decode(recorded);
  for (const Recorded& recorded : Recording("pgoutput_v1.hex")) second.Decode(recorded);
  ASSERT_EQ(first.transactions.size(), second.transactions.size());
  for (size_t i = 0; i < first.transactions.size(); ++i) {
    const EncodedTransaction& a = first.transactions[i];
    const EncodedTransaction& b = second.transactions[i];
    EXPECT_EQ(a.position, b.position);
    EXPECT_EQ(a.record.SerializeAsString(), b.record.SerializeAsString());
    ASSERT_EQ(a.runs.size(), b.runs.size());
    for (size_t run = 0; run < a.runs.size(); ++run) {
      EXPECT_EQ(a.runs[run].bytes, b.runs[run].bytes);
    }
  }
}

// proves S61: what is streamed before its end is told apart from what commits.
TEST(RecordedStream, StreamedTransactionsOfVersionTwo) {
  PgoutputDecoder decoder;
  std::map<uint32_t, int> rows;  // by transaction
  std::vector<uint32_t> committed;
  std::vector<uint32_t> aborted;
  uint32_t open = 0;
  int segments = 0;
  for (const Recorded& recorded : Recording("pgoutput_v2_streaming.hex")) {
    const auto message = decoder.Decode(recorded.bytes);
    ASSERT_TRUE(message.ok()) << message.status();
    if (const auto* start = std::get_if<StreamStartMessage>(&*message)) {
      open = start->xid;
      EXPECT_EQ(start->first_segment, !rows.contains(open));
      ++segments;
    } else if (const auto* begin = std::get_if<BeginMessage>(&*message)) {
      open = begin->xid;
    } else if (std::get_if<InsertMessage>(&*message) != nullptr) {
      ++rows[open];
    } else if (const auto* commit = std::get_if<StreamCommitMessage>(&*message)) {
      committed.push_back(commit->xid);
      EXPECT_EQ(recorded.lsn, commit->commit.end_lsn);
    } else if (const auto* abort = std::get_if<StreamAbortMessage>(&*message)) {
      aborted.push_back(abort->subtransaction_xid);
    }
  }
  EXPECT_EQ(segments, 3);
  ASSERT_EQ(committed.size(), 1u);
  ASSERT_EQ(aborted.size(), 1u);
  EXPECT_EQ(rows[committed[0]], 501);
  EXPECT_GT(rows[aborted[0]], 0);
  EXPECT_EQ(rows[open], 1);
}

TEST(RecordedStream, EveryCutIsRefused) {
  for (const char* name : {"pgoutput_v1.hex", "pgoutput_v2_streaming.hex"}) {
    PgoutputDecoder decoder;
    int messages = 0;
    for (const Recorded& recorded : Recording(name)) {
      // Rows of the second recording are all alike.
      if (++messages < 100) {
        for (size_t size = 0; size < recorded.bytes.size(); ++size) {
          PgoutputDecoder copy = decoder;
          const std::vector<char> cut(recorded.bytes.begin(), recorded.bytes.begin() + size);
          const auto message = copy.Decode({cut.data(), cut.size()});
          ASSERT_EQ(ReasonOf(message.status()), reason::kSourceProtocol) << size;
        }
      }
      ASSERT_TRUE(decoder.Decode(recorded.bytes).ok());
    }
  }
}

}  // namespace
}  // namespace tidemark::capture::postgres
