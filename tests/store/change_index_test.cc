// The index finds the row that a sequence of runs leaves under a key, however keys hash and however
// little memory there is.
#include "store/change_index.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "proto/reason.h"
#include "store/identity_key.h"
#include "store/row_value.h"
#include "store/spool_index.h"
#include "tests/store/sample_log.h"
#include "tests/store/store_fixture.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::store {
namespace {

constexpr FeedId kFeed = 3;

uint64_t SameHash(std::string_view) { return 42; }

// Runs in memory: each with the pieces of its values.
class RunsInMemory final : public NumberedRuns {
 public:
  void Add(const StoredRun& run) { runs_.push_back({std::string(run.bytes)}); }
  void AddPiece(const StoredRun& run) { runs_.back().emplace_back(run.bytes); }
  uint32_t last() const { return static_cast<uint32_t>(runs_.size() - 1); }

  absl::StatusOr<std::string_view> Bytes(uint32_t number, uint32_t part) override {
    return runs_.at(number).at(part);
  }
  std::pair<Position, uint64_t> PlaceOf(uint32_t number) const override {
    return {Position::Of(1, uint64_t{number}), 0};
  }

 private:
  std::deque<std::vector<std::string>> runs_;
};

class OverflowInMemory final : public IndexOverflow {
 public:
  absl::Status Put(const std::vector<Entry>& entries) override {
    for (const auto& [hash, place] : entries) places_[hash] = place;
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<PlaceOfChange>> Get(uint64_t hash) override {
    const auto found = places_.find(hash);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<uint64_t, PlaceOfChange> places_;
};

class ChangeIndexTest : public ::testing::Test {
 protected:
  ChangeIndexTest() { log_.AddSchema(table_); }

  void Add(ChangeIndex* index, const std::vector<v1::Change>& changes) {
    runs_.Add(log_.Run(++position_, table_, changes));
    const absl::Status added = index->Add(runs_.last(), runs_.Bytes(runs_.last(), 0).value());
    ASSERT_TRUE(added.ok()) << added;
  }

  // "none", "gone", or the texts of the row.
  std::string Find(ChangeIndex* index, int64_t id) {
    const std::string prefix = RowsTablePrefix(kFeed, "public", "t");
    std::string key = prefix;
    EXPECT_TRUE(AppendIdentityValue(IntegerValue(id).SerializeAsString(), &key).ok());
    std::string row;
    const auto found = index->Find(prefix, key, &row);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return "error";
    if (*found == ChangeIndex::Found::kNotChanged) return "none";
    if (*found == ChangeIndex::Found::kGone) return "gone";
    const auto decoded = DecodeRow(row);
    v1::Row message;
    EXPECT_TRUE(decoded && message.ParseFromString(std::string(decoded->values)));
    EXPECT_EQ(message.values(0).integer(), id);
    return message.values(1).text();
  }

  v1::TableSchema table_ = SampleSchema("t", {"name"});
  SampleLog log_;
  uint64_t position_ = 0;
  RunsInMemory runs_;
  RowKeys keys_{
      kFeed,
      [this](uint64_t id) -> absl::StatusOr<v1::TableSchema> { return log_.schemas().at(id); },
      [](const v1::TableSchema&) { return true; }};
};

TEST_F(ChangeIndexTest, TheLastChangeOfAKeyWins) {
  ChangeIndex index(&keys_, &runs_);
  EXPECT_EQ(Find(&index, 1), "none");
  Add(&index, {Insert(1, {TextValue("a")}), Insert(2, {TextValue("b")})});
  Add(&index, {Update(1, {TextValue("c")}), Update(1, {TextValue("d")}), Delete(2)});
  EXPECT_EQ(Find(&index, 1), "d");
  EXPECT_EQ(Find(&index, 2), "gone");
  EXPECT_EQ(Find(&index, 3), "none");
  Add(&index, KeyChange(1, 3, {TextValue("e")}));
  EXPECT_EQ(Find(&index, 1), "gone");
  EXPECT_EQ(Find(&index, 3), "e");
  index.Clear();
  EXPECT_EQ(Find(&index, 3), "none");
}

TEST_F(ChangeIndexTest, ATruncateRemovesWhatCameBeforeIt) {
  ChangeIndex index(&keys_, &runs_);
  Add(&index, {Insert(1, {TextValue("a")}), Truncate(), Insert(2, {TextValue("b")})});
  EXPECT_EQ(Find(&index, 1), "gone");
  EXPECT_EQ(Find(&index, 2), "b");
  EXPECT_EQ(Find(&index, 7), "gone");
}

TEST_F(ChangeIndexTest, ValuesInPiecesComeWhole) {
  ChangeIndex index(&keys_, &runs_);
  const std::string text(10'000, 'x');
  const std::vector<StoredRun> in_parts =
      log_.RunInParts(++position_, table_, Insert(1, {TextValue(text)}), 1, 3'000);
  runs_.Add(in_parts[0]);
  for (size_t i = 1; i < in_parts.size(); ++i) runs_.AddPiece(in_parts[i]);
  ASSERT_TRUE(index.Add(runs_.last(), in_parts[0].bytes).ok());
  EXPECT_EQ(Find(&index, 1), text);
}

// Against a model, where every key has the same hash, and where three keys fit into memory.
TEST_F(ChangeIndexTest, HashesAndMemoryDoNotMatter) {
  ChangeIndex same_hash(&keys_, &runs_, kIndexKeysMax, &SameHash);
  ChangeIndex small(&keys_, &runs_, 3);
  std::mt19937 random(7);
  std::map<int64_t, std::string> model;
  for (int step = 0; step < 300; ++step) {
    const auto id = static_cast<int64_t>(random() % 12);
    const std::string text = fmt::format("row {}", step);
    std::vector<v1::Change> changes;
    switch (random() % 12) {
      case 0:
        changes = {Truncate()};
        for (auto& [key, row] : model) row = "gone";
        break;
      case 1:
      case 2:
        changes = {Delete(id)};
        model[id] = "gone";
        break;
      default:
        changes = {Insert(id, {TextValue(text)})};
        model[id] = text;
    }
    runs_.Add(log_.Run(++position_, table_, changes));
    const std::string bytes(runs_.Bytes(runs_.last(), 0).value());
    ASSERT_TRUE(same_hash.Add(runs_.last(), bytes).ok());
    if (small.is_full()) small.UseOverflow(std::make_unique<OverflowInMemory>());
    ASSERT_TRUE(small.Add(runs_.last(), bytes).ok());
    for (const auto& [key, row] : model) {
      ASSERT_EQ(Find(&same_hash, key), row) << "step " << step << " key " << key;
      ASSERT_EQ(Find(&small, key), row) << "step " << step << " key " << key;
    }
  }
  EXPECT_FALSE(small.is_full());
}

TEST_F(ChangeIndexTest, SaysThatItIsFull) {
  ChangeIndex index(&keys_, &runs_, 2);
  Add(&index, {Insert(1, {TextValue("a")})});
  EXPECT_FALSE(index.is_full());
  Add(&index, {Insert(2, {TextValue("b")})});
  EXPECT_TRUE(index.is_full());
  index.UseOverflow(std::make_unique<OverflowInMemory>());
  EXPECT_FALSE(index.is_full());
}

class IndexOverflowTest : public StoreFixture {};

TEST_F(IndexOverflowTest, KeepsWhatWasPutLastUntilItGoes) {
  OpenWithLog();
  auto overflow = feed_->NewIndexOverflow();
  ASSERT_TRUE(overflow.ok()) << overflow.status();
  std::vector<IndexOverflow::Entry> entries;
  for (uint64_t i = 0; i < 40'000; ++i) entries.push_back({i * 7, i});
  ASSERT_TRUE((*overflow)->Put(entries).ok());
  ASSERT_TRUE((*overflow)->Put({{14, 99}}).ok());
  EXPECT_EQ((*overflow)->Get(14).value(), 99u);
  EXPECT_EQ((*overflow)->Get(39'999 * 7).value(), 39'999u);
  EXPECT_EQ((*overflow)->Get(1).value(), std::nullopt);
  auto second = feed_->NewIndexOverflow();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->Get(14).value(), std::nullopt);
  overflow->reset();
  second->reset();
  // No large transaction gets the ids again, and nothing is left for the next start.
  ASSERT_TRUE(feed_->SpoolParts(1, {schema_}, {Run(0, {Insert(1, {TextValue("a")})})}).ok());
  Open();
  Append({Inserts(110, {1})});
  EXPECT_EQ(Positions(100), std::vector<uint64_t>{110});
}

}  // namespace
}  // namespace tidemark::store
