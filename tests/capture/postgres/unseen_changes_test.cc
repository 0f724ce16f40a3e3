#include "capture/postgres/unseen_changes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "capture/value_writer.h"
#include "tests/capture/postgres/memory_rows.h"
#include "tests/testing/sanitized.h"
#include "tests/testing/seed.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kHandle = 77;

XidSnapshot Snapshot(const std::string& text) { return *XidSnapshot::Parse(text); }

std::string Image(ValueTag tag, int64_t value) {
  std::string image;
  AppendInteger(tag, value, &image);
  return image;
}

// Changes as numbers: what is added, and negative what is removed.
std::vector<int64_t> Numbers(const std::vector<EncodedRun>& runs, uint64_t sequence = 0) {
  std::vector<int64_t> numbers;
  for (const EncodedRun& encoded : runs) {
    EXPECT_EQ(encoded.first_sequence, sequence);
    v1::Run run;
    EXPECT_TRUE(run.ParseFromString(encoded.bytes));
    for (const v1::Change& change : run.changes()) {
      const bool removed = change.op() == v1::OP_DELETE;
      numbers.push_back(removed ? -change.before(0).integer() : change.after(0).integer());
    }
    sequence += encoded.changes;
  }
  return numbers;
}

class UnseenChangesTest : public ::testing::Test {
 protected:
  UnseenChangesTest() : relation_(SampleRelation(/*keyed=*/false)) {}

  void Open() { changes_.Open({relation_.description.oid, "public", "t", kHandle}); }
  void Stream(uint32_t xid, const std::vector<int64_t>& numbers) {
    changes_.Began(xid);
    for (const int64_t number : numbers) Add(number);
    changes_.Committed();
  }
  void Add(int64_t number) { Add(relation_, number); }
  void Add(const Relation& relation, int64_t number) {
    TransactionBuilder* builder = changes_.Changes(relation);
    if (builder == nullptr) return;
    const uint64_t schema = relation.shape.schema_id;
    if (number < 0) {
      builder->AddChange(v1::OP_DELETE, schema, {.before = Image(ValueTag::kBefore, -number)});
    } else {
      builder->AddChange(v1::OP_INSERT, schema, {.after = Image(ValueTag::kAfter, number)});
    }
  }

  Relation relation_;
  UnseenChanges changes_;
};

TEST_F(UnseenChangesTest, WhatTheSnapshotSeesIsNotToldOnceMore) {  // proves H4
  Stream(10, {1});
  Open();
  Stream(11, {2});      // seen
  Stream(14, {3, 4});   // began later
  Stream(12, {-2, 5});  // was in progress
  changes_.Use(Snapshot("12:14:12"));
  EXPECT_THAT(changes_.void_because(), IsEmpty());
  Stream(13, {6});  // seen, and streamed late
  Stream(15, {7});
  Stream(16, {});
  EXPECT_EQ(changes_.record().changes(), 5u);
  EXPECT_THAT(changes_.record().schema_ids(), ElementsAre(relation_.shape.schema_id));
  EXPECT_THAT(Numbers(changes_.Take()), ElementsAre(3, 4, -2, 5, 7));
}

TEST_F(UnseenChangesTest, ACommitThatWasStreamedBeforeAndIsNotSeenYet) {
  Stream(10, {1});
  Stream(11, {});
  Open();
  changes_.Use(Snapshot("11:12:11"));
  EXPECT_THAT(changes_.void_because(), HasSubstr("did not see a commit yet"));
  Stream(12, {2});
  EXPECT_THAT(changes_.Take(), IsEmpty());
  Open();
  EXPECT_THAT(changes_.void_because(), IsEmpty());
  changes_.Use(Snapshot("13:13:"));
  EXPECT_THAT(changes_.void_because(), IsEmpty());
}

TEST_F(UnseenChangesTest, OtherTablesAndOtherTimesAreNothingToIt) {
  Stream(10, {1});
  Open();
  Relation other = relation_;
  other.description.oid = 8;
  changes_.Began(11);
  Add(other, 2);
  changes_.Committed();
  changes_.Use(Snapshot("11:11:"));
  changes_.Close();
  Stream(12, {3});
  EXPECT_THAT(changes_.Take(), IsEmpty());
  EXPECT_EQ(changes_.record().changes(), 0u);
}

// Of what is gone before the snapshot, nothing matters.
TEST_F(UnseenChangesTest, ATableThatIsNoLongerTheSame) {  // proves B021
  Relation renamed = relation_;
  renamed.description.table_name = "t_out";
  const Relation keyed = SampleRelation(/*keyed=*/true);
  RelationDescription other = relation_.description;
  other.oid = 8;
  for (int kind = 0; kind < 3; ++kind) {
    changes_ = UnseenChanges();
    const auto do_it = [&](uint32_t xid) {
      changes_.Began(xid);
      if (kind == 0) changes_.Announced(other);
      if (kind == 1) Add(renamed, 1);
      if (kind == 2) Add(keyed, 1);
      changes_.Committed();
    };
    Open();
    do_it(10);
    changes_.Use(Snapshot("11:11:"));
    do_it(9);
    EXPECT_THAT(changes_.void_because(), IsEmpty()) << kind;
    do_it(11);
    EXPECT_THAT(changes_.void_because(), HasSubstr("it")) << kind;
    EXPECT_THAT(changes_.Take(), IsEmpty());
    Open();
    do_it(20);
    changes_.Use(Snapshot("20:20:"));
    EXPECT_THAT(changes_.void_because(), HasSubstr("it")) << kind;
  }
}

TEST_F(UnseenChangesTest, IsBounded) {
  const auto large = [&](uint32_t xid, size_t bytes) {
    std::string image;
    AppendText(ValueTag::kAfter, std::string(1 << 20, 'x'), &image);
    changes_.Began(xid);
    for (size_t i = 0; i <= bytes >> 20; ++i) {
      TransactionBuilder* builder = changes_.Changes(relation_);
      if (builder == nullptr) break;
      builder->AddChange(v1::OP_INSERT, relation_.shape.schema_id, {.after = image});
    }
  };
  Open();
  large(10, kUnseenHeldBytesMax + (2 << 20));
  changes_.Committed();
  EXPECT_THAT(changes_.void_because(), HasSubstr("too much"));
  EXPECT_FALSE(changes_.full());

  Open();
  changes_.Use(Snapshot("20:20:"));
  Stream(20, {1, 2});
  EXPECT_FALSE(changes_.full());
  // Within a transaction: sequences count over all of them.
  large(21, kUnseenBytesMax + (1 << 20));
  ASSERT_TRUE(changes_.full());
  std::vector<EncodedRun> runs = changes_.Take();
  EXPECT_TRUE(changes_.in_parts());
  changes_.Committed();
  Stream(22, {3});
  const std::vector<EncodedRun> rest = changes_.Take();
  runs.insert(runs.end(), rest.begin(), rest.end());
  uint64_t sequence = 0, bytes = 0;
  for (const EncodedRun& run : runs) {
    // A piece of a value has the sequence of its change.
    EXPECT_EQ(run.first_sequence + (run.part == 0 ? 0 : 1), sequence);
    sequence += run.changes;
    bytes += run.bytes.size();
  }
  EXPECT_EQ(changes_.record().changes(), sequence);
  EXPECT_EQ(changes_.record().bytes(), bytes);
  EXPECT_EQ(runs.back().first_sequence, sequence - 1);
}

TEST_F(UnseenChangesTest, NoRunHoldsTwoSchemasOfTheTable) {
  Relation before = relation_;
  before.shape.schema_id = 1;
  Relation after = relation_;
  after.shape.schema_id = 2;
  Open();
  changes_.Use(Snapshot("10:10:"));
  changes_.Began(10);
  Add(before, 1);
  Add(after, 2);
  Add(after, 3);
  changes_.Committed();
  EXPECT_THAT(changes_.record().schema_ids(), ElementsAre(1, 2));
  const std::vector<EncodedRun> runs = changes_.Take();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_THAT(Numbers(runs), ElementsAre(1, 2, 3));
}

// ---- A model: sessions that add and remove rows that may be equal, commits that others see late,
// and a reading whose stream is behind.

struct ModelTransaction {
  uint32_t xid = 0;
  int committed = 0;  // when it is in the log
  int visible = 0;    // when others see it
  std::vector<int64_t> changes;
};

struct ModelRow {
  int64_t value = 0;
  const ModelTransaction* from = nullptr;  // null: was there before
  bool taken = false;
};

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {
    for (int i = 0; i < kRows; ++i) rows_.push_back({Below(kValues) + 1});
    for (const ModelRow& row : rows_) first_.insert(row.value);
    transactions_.resize(kTransactions);
    int now = 0;
    for (uint32_t i = 0; i < kTransactions; ++i) {
      now += 1 + Below(3);
      Write(&transactions_[i], 100 + i, now);
    }
    log_ = transactions_;
    std::sort(log_.begin(), log_.end(),
              [](const auto& a, const auto& b) { return a.committed < b.committed; });
  }

  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  const std::vector<ModelTransaction>& log() const { return log_; }
  int end() const { return log_.back().committed + kDelayMax; }

  // How many of the log are in it at a time.
  size_t InLogAt(int time) const {
    return static_cast<size_t>(std::count_if(
        log_.begin(), log_.end(), [&](const auto& one) { return one.committed <= time; }));
  }
  XidSnapshot SnapshotAt(int time) const {
    uint32_t xmin = 0, xmax = 100;
    std::string running;
    for (const ModelTransaction& one : transactions_) {
      if (began_.at(one.xid - 100) > time) break;
      xmax = one.xid + 1;
      if (one.visible <= time) continue;
      if (xmin == 0) xmin = one.xid;
      running += fmt::format("{}{}", running.empty() ? "" : ",", one.xid);
    }
    return Snapshot(fmt::format("{}:{}:{}", xmin == 0 ? xmax : xmin, xmax, running));
  }
  std::multiset<int64_t> SeenBy(const XidSnapshot& snapshot) const {
    std::multiset<int64_t> rows = first_;
    for (const ModelTransaction& one : log_) {
      if (snapshot.Sees(one.xid)) Apply(one.changes, &rows);
    }
    return rows;
  }
  std::multiset<int64_t> After(size_t transactions) const {
    std::multiset<int64_t> rows = first_;
    for (size_t i = 0; i < transactions; ++i) Apply(log_[i].changes, &rows);
    return rows;
  }
  static void Apply(const std::vector<int64_t>& changes, std::multiset<int64_t>* rows) {
    for (const int64_t change : changes) {
      if (change > 0) {
        rows->insert(change);
        continue;
      }
      const auto found = rows->find(-change);
      ASSERT_NE(found, rows->end()) << "nothing to remove";
      rows->erase(found);
    }
  }

 private:
  static constexpr int kRows = 12, kTransactions = 40, kValues = 4, kDelayMax = 12;

  void Write(ModelTransaction* transaction, uint32_t xid, int now) {
    transaction->xid = xid;
    began_.push_back(now);
    const int length = 1 + Below(8);
    transaction->committed = 10 * (now + length) + Below(10);
    transaction->visible = transaction->committed + (Below(3) == 0 ? Below(10 * kDelayMax) : 0);
    began_.back() *= 10;
    std::vector<ModelRow> added;
    for (int i = Below(4); i >= 0; --i) {
      const int pick = Below(static_cast<int>(rows_.size()));
      ModelRow& row = rows_[static_cast<size_t>(pick)];
      // What others have not finished with is out of reach.
      const bool reached = row.from == nullptr || row.from->visible < began_.back();
      if (Below(2) == 0 && reached && !row.taken) {
        row.taken = true;
        transaction->changes.push_back(-row.value);
      } else {
        added.push_back({Below(kValues) + 1, transaction});
        transaction->changes.push_back(added.back().value);
      }
    }
    rows_.insert(rows_.end(), added.begin(), added.end());
  }

  std::mt19937_64 random_;
  std::vector<ModelTransaction> transactions_;  // in the order of their ids
  std::vector<int> began_;
  std::vector<ModelTransaction> log_;
  std::vector<ModelRow> rows_;
  std::multiset<int64_t> first_;
};

// proves H4, A48, B009: what is told at any place behind the fence is what the table holds there.
TEST_F(UnseenChangesTest, RowsAndUnseenChangesAreTheTableWhereTheyAreTold) {
  constexpr uint64_t kModels = testing::kSanitized ? 400 : 2000;
  uint64_t counted = 0, voided = 0, unseen_first = 0;
  for (uint64_t i = 0; i < kModels && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("TIDEMARK_SEED={}", testing::SeedFromEnvironment() + i));
    Model model(testing::SeedFromEnvironment() + i);
    const int taken = model.Below(model.end());
    const XidSnapshot snapshot = model.SnapshotAt(taken);
    const size_t fence = model.InLogAt(taken);
    // The stream may be behind, and the snapshot may be told late.
    const size_t open = static_cast<size_t>(model.Below(static_cast<int>(fence) + 1));
    const size_t rest = model.log().size() - open;
    const size_t told = open + static_cast<size_t>(model.Below(static_cast<int>(rest) + 1));
    const size_t behind = std::max(fence, told);
    const size_t place =
        behind +
        static_cast<size_t>(model.Below(static_cast<int>(model.log().size() - behind) + 1));
    changes_ = UnseenChanges();
    bool all_seen = true;
    for (size_t at = 0; at <= place; ++at) {
      if (at == open) Open();
      if (at == told) changes_.Use(snapshot);
      if (at == place) break;
      const ModelTransaction& one = model.log()[at];
      all_seen &= at >= open || snapshot.Sees(one.xid);
      Stream(one.xid, one.changes);
    }
    EXPECT_EQ(changes_.void_because().empty(), all_seen);
    if (!all_seen) {
      ++voided;
      continue;
    }
    ++counted;
    std::multiset<int64_t> rows = model.SeenBy(snapshot);
    Model::Apply(Numbers(changes_.Take()), &rows);
    EXPECT_EQ(rows, model.After(place));
    for (size_t at = 0; at + 1 < fence; ++at) {
      const bool is_first = !snapshot.Sees(model.log()[at].xid);
      if (is_first && snapshot.Sees(model.log()[at + 1].xid)) ++unseen_first;
    }
  }
  EXPECT_GT(counted, kModels / 4);
  EXPECT_GT(voided, kModels / 100);
  EXPECT_GT(unseen_first, kModels / 20) << "hardly a commit stood before one that was seen earlier";
}

}  // namespace
}  // namespace tidemark::capture::postgres
