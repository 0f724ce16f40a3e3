// Verification names whatever is wrong in a store, and finds nothing in a good one.
#include "store/verify.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proto/reason.h"
#include "store/database.h"
#include "store/log_entry.h"
#include "store/row_value.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Lines = std::vector<std::string>;

class VerifyTest : public StoreFixture {
 protected:
  static constexpr FeedId kFeed = 1;

  // Commit records that do not overlap, as PostgreSQL writes them.
  EncodedTransaction Commit(uint64_t position, const std::vector<int64_t>& ids,
                            size_t per_run = 1000) const {
    EncodedTransaction transaction = Inserts(position, ids, per_run);
    transaction.record.set_commit_lsn(position - 5);
    return transaction;
  }

  EncodedTransaction Changes(uint64_t position, const std::vector<v1::Change>& changes) const {
    EncodedTransaction transaction = Commit(position, {});
    transaction.record.set_changes(changes.size());
    transaction.runs = {Run(0, changes)};
    return transaction;
  }

  // A value of 100 bytes in pieces of 30.
  EncodedTransaction InParts(uint64_t position) const {
    EncodedTransaction transaction = Commit(position, {});
    transaction.record.set_changes(1);
    SampleLog log;
    uint32_t part = 0;
    for (const StoredRun& run :
         log.RunInParts(position, schema_, Insert(7, {TextValue(std::string(100, 'p'))}), 1, 30)) {
      transaction.runs.push_back({0, part, part == 0 ? 1u : 0u, std::string(run.bytes)});
      ++part;
    }
    return transaction;
  }

  void AppendSpooled(uint64_t position, const std::vector<int64_t>& ids) {
    const EncodedTransaction transaction = Commit(position, ids, 3);
    ASSERT_TRUE(feed_->SpoolParts(position, {schema_}, transaction.runs).ok());
    AppendBatch batch;
    batch.spooled = {{position, At(position), transaction.record}};
    batch.checkpoint = CheckpointAt(position);
    const absl::Status status = feed_->Append(batch);
    ASSERT_TRUE(status.ok()) << status;
  }

  // A store with a bit of everything, folded.
  void MakeStore() {
    OpenWithLog();
    Append({Commit(110, {1, 2}), Commit(120, {3, 4, 5, 6, 7, 8}, 2)});
    AppendSpooled(130, {11, 12, 13, 14, 15, 16, 17});
    Append({InParts(140), Changes(150, {Update(1, {TextValue("one")}), Delete(2)}),
            Changes(160, KeyChange(3, 30, {AbsentValue()}))});
    Sync();
    Fold();
    Append({Commit(170, {21})});
    Sync();
  }

  // Writes past the store's own rules.
  void Damage(const std::function<void(Database*, rocksdb::WriteBatch*)>& damage) {
    Close();
    auto database = Database::Open(options_);
    ASSERT_TRUE(database.ok()) << database.status();
    rocksdb::WriteBatch batch;
    damage(database->get(), &batch);
    ASSERT_TRUE((*database)->Write(&batch, true).ok());
  }

  static std::string LogValue(Database* database, uint64_t position, uint64_t sequence) {
    std::string value;
    EXPECT_TRUE(database->rocks()
                    ->Get(rocksdb::ReadOptions(), database->log(),
                          LogKey{kFeed, At(position), sequence, 0}.Encode(), &value)
                    .ok());
    return value;
  }

  void SwapEntries(uint64_t position, uint64_t sequence, uint64_t other_position,
                   uint64_t other_sequence) {
    Damage([&](Database* database, rocksdb::WriteBatch* batch) {
      batch->Put(database->log(), LogKey{kFeed, At(position), sequence, 0}.Encode(),
                 LogValue(database, other_position, other_sequence));
      batch->Put(database->log(), LogKey{kFeed, At(other_position), other_sequence, 0}.Encode(),
                 LogValue(database, position, sequence));
    });
  }

  // Key and value of the row with that id.
  static std::pair<std::string, std::string> FindRow(Database* database, int64_t id) {
    const std::unique_ptr<rocksdb::Iterator> at(
        database->rocks()->NewIterator(rocksdb::ReadOptions(), database->rows()));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      const auto row = DecodeRow(at->value().ToStringView());
      std::vector<std::string_view> values;
      if (!row || at->key().size() < 10 || !SplitRowFields(row->values, &values)) continue;
      if (values[0] == IntegerValue(id).SerializeAsString()) {
        return {at->key().ToString(), at->value().ToString()};
      }
    }
    ADD_FAILURE() << "no row " << id;
    return {};
  }

  // "check: text" of every finding.
  Lines Verify() {
    Close();
    Lines findings;
    const auto summary = VerifyStore({.store = options_}, [&](const Finding& finding) {
      findings.push_back(fmt::format("{}: {}", finding.check, finding.text));
    });
    if (!summary.ok()) {
      return {fmt::format("{}: {}", ReasonOf(summary.status()),
                          std::string(summary.status().message()))};
    }
    EXPECT_EQ(summary->findings, findings.size());
    summary_ = *summary;
    return findings;
  }

  VerifySummary summary_;
};

TEST_F(VerifyTest, FindsNothingInAGoodStore) {
  MakeStore();
  EXPECT_THAT(Verify(), IsEmpty());
  EXPECT_EQ(summary_.feeds, 1u);
  EXPECT_EQ(summary_.transactions, 7u);
  EXPECT_EQ(summary_.changes, 2u + 6 + 7 + 1 + 2 + 2 + 1);
  // 1..8 without 2, 3 under the key 30, 11..17.
  EXPECT_EQ(summary_.rows, 7u + 7);
  EXPECT_THAT(summary_.notes, IsEmpty());
}

TEST_F(VerifyTest, FindsNothingInAnEmptyStore) {
  Open();
  EXPECT_THAT(Verify(), IsEmpty());
  EXPECT_THAT(summary_.notes, Contains(HasSubstr("not whole")));
}

// proves R17
TEST_F(VerifyTest, NamesTwoTransactionsThatAreSwapped) {
  MakeStore();
  SwapEntries(110, 0, 150, 0);
  const Lines findings = Verify();
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("order: "), HasSubstr(At(110).Text()))));
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("order: "), HasSubstr(At(140).Text()),
                                       HasSubstr(At(150).Text()))));
}

// proves R17
TEST_F(VerifyTest, NamesTwoRunsThatAreSwapped) {
  OpenWithLog();
  EncodedTransaction transaction = Commit(110, {1, 2, 3, 4, 5});
  std::vector<v1::Change> first = {Insert(1, {TextValue("a")}), Insert(2, {TextValue("b")}),
                                   Insert(3, {TextValue("c")})};
  transaction.runs = {Run(0, {first[0]}), Run(1, first), Run(4, {first[1]})};
  Append({transaction});
  SwapEntries(110, 1, 110, 4);
  // The run of three now begins at 4: it passes the end of the commit.
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("record: "), HasSubstr(At(110).Text() + "/4"))));
}

// proves R17
TEST_F(VerifyTest, NamesBothEntriesWhereThePairDoesNotRise) {
  OpenWithLog();
  EncodedTransaction transaction = Commit(110, {1, 2, 3});
  transaction.runs = {Run(0, {Insert(1, {TextValue("a")}), Insert(2, {TextValue("b")})}),
                      Run(1, {Insert(3, {TextValue("c")})})};
  Append({transaction});
  EXPECT_THAT(Verify(),
              Contains(AllOf(StartsWith("order: "), HasSubstr("entry " + At(110).Text() + "/1"),
                             HasSubstr("entry " + At(110).Text() + "/0"))));
}

// proves R17
TEST_F(VerifyTest, NamesChangesThatAreSwappedInsideARun) {
  MakeStore();
  Damage([&](Database* database, rocksdb::WriteBatch* batch) {
    const std::string value = LogValue(database, 110, 0);
    const auto entry = LogEntry::Parse(value);
    v1::Run run;
    ASSERT_TRUE(run.ParseFromString(std::string(entry->run)));
    run.mutable_changes()->SwapElements(0, 1);
    batch->Put(database->log(), LogKey{kFeed, At(110), 0, 0}.Encode(),
               LogEntryHead(entry->record) + run.SerializeAsString());
  });
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("order: "), HasSubstr(At(110).Text() + "/0"),
                                       HasSubstr(At(110).Text() + "/1"))));
}

// Two runs of the same size carry nothing that tells their order; the rows do.
TEST_F(VerifyTest, FindsSwappedRunsOfEqualSizeByTheRows) {
  MakeStore();
  SwapEntries(120, 2, 120, 4);
  const Lines findings = Verify();
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("fold: "), HasSubstr(At(120).Text() + "/2"))));
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("fold: "), HasSubstr(At(120).Text() + "/4"))));
}

TEST_F(VerifyTest, CountsRunsAgainstTheCommitRecord) {
  MakeStore();
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    batch->Delete(database->log(), LogKey{kFeed, At(120), 4, 0}.Encode());
  });
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("record: "), HasSubstr(At(120).Text()),
                                       HasSubstr("bytes of runs"))));
}

TEST_F(VerifyTest, NamesAnEntryThatIsUnreadable) {
  MakeStore();
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    batch->Put(database->log(), LogKey{kFeed, At(120), 2, 0}.Encode(), std::string("\x00\xFF", 2));
    batch->Put(database->log(), LogKey{kFeed, At(110), 0, 0}.Encode(), "\xFF");
  });
  const Lines findings = Verify();
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("entry: "), HasSubstr(At(120).Text() + "/2"))));
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("entry: "), HasSubstr(At(110).Text() + "/0"))));
}

TEST_F(VerifyTest, FindsAPieceOfAValueThatIsGone) {
  MakeStore();
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    batch->Delete(database->log(), LogKey{kFeed, At(140), 0, 2}.Encode());
  });
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("parts: "), HasSubstr(At(140).Text() + "/0+3"))));
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    batch->Delete(database->log(), LogKey{kFeed, At(140), 0, 4}.Encode());
  });
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("parts: "), HasSubstr("60 of"))));
}

TEST_F(VerifyTest, FollowsReferencesToTheSpoolBothWays) {
  MakeStore();
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    batch->Delete(database->meta(), SpooledKey(kFeed, 1));
    batch->Put(database->meta(), SpooledKey(kFeed, 9), std::string(At(145).bytes()));
  });
  Lines findings = Verify();
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("spool: "), HasSubstr("has no reference"))));
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("spool: "), HasSubstr(At(145).Text()))));
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    batch->DeleteRange(database->spool(), SpoolPrefix(kFeed, 1), SpoolPrefix(kFeed, 2));
  });
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("spool: "), HasSubstr("are gone"))));
}

TEST_F(VerifyTest, MissesASchema) {
  MakeStore();
  Damage([&](Database* database, rocksdb::WriteBatch* batch) {
    batch->Delete(database->schemas(), SchemaKey(kFeed, schema_.schema_id()));
  });
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("schema: entry " + At(110).Text()))));
  v1::TableSchema changed = schema_;
  changed.mutable_columns(1)->set_name("other");
  Damage([&](Database* database, rocksdb::WriteBatch* batch) {
    batch->Put(database->schemas(), SchemaKey(kFeed, schema_.schema_id()),
               changed.SerializeAsString());
  });
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("schema: "), HasSubstr("hash of its content"))));
}

TEST_F(VerifyTest, ChecksTheBoundaries) {
  MakeStore();
  Damage([&](Database* database, rocksdb::WriteBatch* batch) {
    batch->Put(database->meta(), CheckpointKey(kFeed), CheckpointAt(165).SerializeAsString());
    batch->Put(database->rows(), RowsMarkerKey(kFeed), RowsMarker{At(180), At(100)}.Encode());
  });
  const Lines findings = Verify();
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("boundary: the last transaction"),
                                       HasSubstr(At(165).Text()))));
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("boundary: the boundary of the rows"),
                                       HasSubstr(At(180).Text()))));
}

// proves O1 on disk
TEST_F(VerifyTest, ComparesTheRowsWithTheFoldOfTheLog) {
  MakeStore();
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    const auto [lost, lost_value] = FindRow(database, 1);
    batch->Delete(database->rows(), lost);
    auto [changed, changed_value] = FindRow(database, 4);
    changed_value.back() ^= 1;
    batch->Put(database->rows(), changed, changed_value);
    // A row that the log removed is back, and one that it never wrote is there.
    std::string back;
    AppendRowHeader(At(110), 1, ReadBig64(lost_value.data() + 28), &back);
    AppendRowField(IntegerValue(2).SerializeAsString(), &back);
    AppendRowField(TextValue("back").SerializeAsString(), &back);
    std::string back_key = lost;
    back_key.back() = 2;
    batch->Put(database->rows(), back_key, back);
  });
  const Lines findings = Verify();
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("fold: "), HasSubstr(At(150).Text() + "/0"),
                                       HasSubstr("is not there"))));
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("fold: "), HasSubstr(At(120).Text() + "/1"),
                                       HasSubstr("does not hold the values"))));
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("fold: "), HasSubstr(At(110).Text() + "/1"),
                                       HasSubstr("though the log removes it"))));
}

TEST_F(VerifyTest, ChecksEachRowForItself) {
  MakeStore();
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    const auto [key, value] = FindRow(database, 5);
    std::string other = key;
    other.back() = 99;
    batch->Put(database->rows(), other, value);
    other.back() = 98;
    batch->Put(database->rows(), other, "short");
  });
  const Lines findings = Verify();
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("row: "), HasSubstr("another key"))));
  EXPECT_THAT(findings, Contains(AllOf(StartsWith("row: "), HasSubstr("shorter"))));
}

TEST_F(VerifyTest, TruncatedRowsDoNotComeBack) {
  OpenWithLog();
  Append({Commit(110, {1, 2}), Changes(120, {Truncate(), Insert(3, {TextValue("c")})})});
  Sync();
  Fold();
  EXPECT_THAT(Verify(), IsEmpty());
  Damage([](Database* database, rocksdb::WriteBatch* batch) {
    auto [key, value] = FindRow(database, 3);
    key.back() = 1;
    std::string row;
    AppendRowHeader(At(110), 0, ReadBig64(value.data() + 28), &row);
    AppendRowField(IntegerValue(1).SerializeAsString(), &row);
    AppendRowField(TextValue("row 1").SerializeAsString(), &row);
    batch->Put(database->rows(), key, row);
  });
  EXPECT_THAT(Verify(), Contains(AllOf(StartsWith("fold: "), HasSubstr("no change that left it"))));
}

// proves R65: one bit anywhere in a file of the database
TEST_F(VerifyTest, NamesTheFileInWhichABitFlipped) {
  MakeStore();
  Damage([](Database* database, rocksdb::WriteBatch*) {
    for (auto* family : {database->log(), database->spool(), database->rows(), database->schemas(),
                         database->meta()}) {
      ASSERT_TRUE(database->rocks()->Flush(rocksdb::FlushOptions(), family).ok());
    }
  });
  EXPECT_THAT(Verify(), IsEmpty());
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(options_.path)) {
    if (file.path().extension() != ".sst") continue;
    ++files;
    const auto flip = [&] {
      std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      // Inside the first block of data.
      bytes.seekg(20);
      const int byte = bytes.get();
      bytes.seekp(20);
      bytes.put(static_cast<char>(byte ^ 4));
    };
    flip();
    // A store whose own record is hit does not even open.
    EXPECT_THAT(Verify(),
                Contains(AllOf(AnyOf(StartsWith("checksum: "), StartsWith("STORE_DAMAGED")),
                               HasSubstr(file.path().filename().string()))));
    flip();
  }
  EXPECT_GE(files, 5);
  EXPECT_THAT(Verify(), IsEmpty());
}

// proves R65: a store opens and ends before a damaged record, which must not go unnoticed
TEST_F(VerifyTest, FindsABitThatFlippedInTheWriteAheadLog) {
  MakeStore();
  Close();
  std::filesystem::path newest;
  for (const auto& file : std::filesystem::directory_iterator(options_.path)) {
    if (file.path().extension() == ".log" && file.file_size() > 0) {
      newest = std::max(newest, file.path());
    }
  }
  ASSERT_FALSE(newest.empty());
  const auto half = static_cast<std::streamoff>(std::filesystem::file_size(newest) / 2);
  std::fstream bytes(newest, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(half);
  const int byte = bytes.get();
  bytes.seekp(half);
  bytes.put(static_cast<char>(byte ^ 4));
  bytes.close();
  EXPECT_THAT(Verify(), Contains(StartsWith("checksum: ")));
}

TEST_F(VerifyTest, RefusesWhatIsNoStore) {
  std::filesystem::create_directories(options_.path);
  EXPECT_THAT(Verify(), ElementsAre(StartsWith("STORE_DAMAGED")));
}

TEST_F(VerifyTest, ReadsAStoreThatAServerHasOpen) {
  MakeStore();
  Lines findings;
  const auto summary = VerifyStore(
      {.store = options_}, [&](const Finding& finding) { findings.push_back(finding.text); });
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_EQ(summary->transactions, 7u);
  // And the server goes on.
  Append({Commit(180, {41})});
}

}  // namespace
}  // namespace tidemark::store
