// Folded rows reach the rows family whole, with their marker, however large they are.
#include "store/rows_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "proto/reason.h"
#include "store/row_value.h"
#include "store/stored_rows_reader.h"
#include "tests/store/sample_log.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::store {
namespace {

constexpr FeedId kFeed = 7;

class RowsWriterTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    database_.reset();
    absl::StatusOr<std::unique_ptr<Database>> opened = Database::Open({.path = folder_ / "store"});
    ASSERT_TRUE(opened.ok()) << opened.status();
    database_ = *std::move(opened);
  }

  // Rows as a fold gives them: an empty value removes.
  static FoldedRows Folded(const std::map<std::string, std::string>& rows,
                           const std::vector<std::string>& truncated = {}) {
    FoldedRows folded;
    folded.truncated = truncated;
    for (const auto& [name, value] : rows) {
      const std::string key = Key(name);
      std::string row;
      AppendRowHeader(Position::Of(1, 5), 3, 9, &row);
      row += value;
      folded.rows.push_back({folded.arena.Copy(key), folded.arena.Copy(row), value.empty()});
    }
    folded.bytes = folded.arena.bytes();
    // A small sample counts by its rows alone.
    if (rows.size() < 100) folded.bytes = 1000;
    return folded;
  }

  static std::string Key(const std::string& name) {
    return RowsTablePrefix(kFeed, "public", name.substr(0, 1)) + name.substr(1);
  }
  static std::string Table(const std::string& name) {
    return RowsTablePrefix(kFeed, "public", name);
  }
  static RowsMarker Marker(uint64_t folded) {
    return {Position::Of(1, folded), Position::Of(1, 1)};
  }

  // The values in order, or the reason why there are none.
  std::vector<std::string> Scan() {
    auto reader = StoredRowsReader::Open(*database_, kFeed);
    if (!reader.ok()) return {ReasonOf(reader.status())};
    std::vector<std::string> lines = {fmt::format("@{}", (*reader)->boundary().engine_low())};
    StoredRow row;
    for (;;) {
      const absl::StatusOr<bool> more = (*reader)->Next(&row);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) return lines;
      lines.emplace_back(row.values);
    }
  }

  void Publish(const FoldedRows& rows, const std::optional<RowsMarker>& marker) {
    RowsWriter writer(database_.get(), kFeed);
    const absl::Status status = writer.Publish(rows, marker);
    ASSERT_TRUE(status.ok()) << status;
  }

  size_t StagedFiles() {
    size_t files = 0;
    std::error_code error;
    for (auto it = std::filesystem::directory_iterator(folder_ / "store/staged", error);
         it != std::filesystem::directory_iterator(); ++it) {
      ++files;
    }
    return files;
  }

  testing::ScratchDir folder_;
  std::unique_ptr<Database> database_;
};

using Lines = std::vector<std::string>;

TEST_F(RowsWriterTest, AFeedWithoutAMarkerIsNotReady) {
  Publish(Folded({{"a1", "x"}}), std::nullopt);
  EXPECT_EQ(Scan(), Lines{std::string(reason::kFeedNotReady)});
  Publish(Folded({}), Marker(1));
  EXPECT_EQ(Scan(), (Lines{"@1", "x"}));
}

TEST_F(RowsWriterTest, WritesFewRowsAsABatch) {
  Publish(Folded({{"a1", "x"}, {"a2", "y"}, {"b1", "z"}}), Marker(1));
  Publish(Folded({{"a1", ""}, {"b2", "w"}}), Marker(2));
  EXPECT_EQ(Scan(), (Lines{"@2", "y", "z", "w"}));
  EXPECT_EQ(StagedFiles(), 0u);
}

TEST_F(RowsWriterTest, WritesManyRowsAsAFile) {
  std::map<std::string, std::string> rows;
  Lines expected = {"@1"};
  for (int i = 0; i < 5000; ++i) {
    rows[fmt::format("a{:05}", i)] = fmt::format("v{}", i);
    expected.push_back(fmt::format("v{}", i));
  }
  Publish(Folded(rows), Marker(1));
  EXPECT_EQ(Scan(), expected);
  EXPECT_EQ(StagedFiles(), 0u);
  // A batch over the file, a file over the batch.
  Publish(Folded({{"a00000", ""}, {"a00001", "small"}}), Marker(2));
  expected.erase(expected.begin() + 1);
  expected[0] = "@2";
  expected[1] = "small";
  EXPECT_EQ(Scan(), expected);
  rows["a00001"] = "large";
  Publish(Folded(rows), Marker(3));
  EXPECT_EQ(Scan()[2], "large");
  Open();
  EXPECT_EQ(Scan()[0], "@3");
  EXPECT_EQ(Scan().size(), 5001u);
}

TEST_F(RowsWriterTest, ATruncateRemovesWhatWasBeforeItAndNotWhatComesWithIt) {
  for (const bool as_file : {false, true}) {
    Publish(Folded({{"a1", "old"}, {"b1", "other"}, {"b2", "other"}}), Marker(1));
    std::map<std::string, std::string> rows = {{"a2", "new"}};
    for (int i = 0; as_file && i < 5000; ++i) rows[fmt::format("a3{:05}", i)] = "many";
    Publish(Folded(rows, {Table("a")}), Marker(2));
    const Lines found = Scan();
    ASSERT_EQ(found.size(), 3 + rows.size());
    EXPECT_EQ(found[1], "new");
    EXPECT_EQ(found.back(), "other");
  }
}

TEST_F(RowsWriterTest, ShowsStagedRowsOnlyOnceAllArePublished) {
  Publish(Folded({{"a1", "one"}, {"a2", "two"}, {"b1", "b"}}), Marker(1));
  {
    RowsWriter writer(database_.get(), kFeed);
    ASSERT_TRUE(writer.Stage(Folded({{"a1", "one'"}, {"a3", "three"}})).ok());
    ASSERT_TRUE(writer.Stage(Folded({{"a2", ""}, {"a3", "three'"}, {"a4", "four"}})).ok());
    EXPECT_EQ(Scan(), (Lines{"@1", "one", "two", "b"}));
    ASSERT_TRUE(writer.Publish(Folded({{"a4", ""}, {"a5", "five"}}), Marker(2)).ok());
  }
  EXPECT_EQ(Scan(), (Lines{"@2", "one'", "three'", "five", "b"}));
  EXPECT_EQ(StagedFiles(), 0u);
  Open();
  EXPECT_EQ(Scan(), (Lines{"@2", "one'", "three'", "five", "b"}));
}

TEST_F(RowsWriterTest, FindsWhatIsStaged) {
  Publish(Folded({{"a1", "one"}, {"a2", "two"}, {"b1", "b"}, {"b2", "b"}}), Marker(1));
  RowsWriter writer(database_.get(), kFeed);
  ASSERT_TRUE(writer.Stage(Folded({{"a1", "one'"}, {"a2", ""}, {"b3", "b"}})).ok());
  ASSERT_TRUE(writer.Stage(Folded({{"b4", "new"}}, {Table("b")})).ok());
  const auto find = [&](const std::string& name) -> std::string {
    auto found = writer.Find(Key(name));
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !found->has_value()) return "none";
    return std::string(DecodeRow(**found)->values);
  };
  EXPECT_EQ(find("a1"), "one'");
  EXPECT_EQ(find("a2"), "none");
  EXPECT_EQ(find("a9"), "none");
  EXPECT_EQ(find("b1"), "none");
  EXPECT_EQ(find("b3"), "none");
  EXPECT_EQ(find("b4"), "new");
  EXPECT_EQ(find("c1"), "none");
}

TEST_F(RowsWriterTest, LeavesNothingOfWhatWasNotPublished) {
  {
    RowsWriter writer(database_.get(), kFeed);
    ASSERT_TRUE(writer.Stage(Folded({{"a1", "x"}, {"a2", ""}})).ok());
    EXPECT_EQ(StagedFiles(), 2u);
  }
  EXPECT_EQ(StagedFiles(), 0u);
  // A crash runs no destructor.
  auto* crashed = new RowsWriter(database_.get(), kFeed);
  ASSERT_TRUE(crashed->Stage(Folded({{"a1", "x"}})).ok());
  EXPECT_EQ(StagedFiles(), 1u);
  ASSERT_TRUE(RowsWriter::RemoveLeftovers(database_.get()).ok());
  EXPECT_EQ(StagedFiles(), 0u);
  delete crashed;
}

// The position of a snapshot's rows is known only when the snapshot is whole.
TEST_F(RowsWriterTest, RowsOfTheSnapshotHaveItsBoundary) {
  FoldedRows folded;
  std::string row;
  AppendRowHeader(Position(), 0, 9, &row);
  const std::string key = Key("a1");
  folded.rows.push_back({folded.arena.Copy(key), folded.arena.Copy(row), false});
  Publish(folded, std::nullopt);
  Publish(Folded({}), RowsMarker{Position::Of(1, 8), Position::Of(1, 4)});
  auto reader = StoredRowsReader::Open(*database_, kFeed);
  ASSERT_TRUE(reader.ok()) << reader.status();
  StoredRow found;
  ASSERT_TRUE(*(*reader)->Next(&found));
  EXPECT_EQ(found.position, Position::Of(1, 4));
  EXPECT_EQ(found.schema_id, 9u);
  EXPECT_EQ((*reader)->boundary(), Position::Of(1, 8));
}

TEST_F(RowsWriterTest, AScanKeepsItsView) {
  Publish(Folded({{"a1", "x"}, {"a2", "y"}}), Marker(1));
  auto reader = StoredRowsReader::Open(*database_, kFeed);
  ASSERT_TRUE(reader.ok()) << reader.status();
  Publish(Folded({{"a1", ""}, {"a2", "changed"}}), Marker(2));
  EXPECT_EQ((*reader)->boundary(), Position::Of(1, 1));
  StoredRow row;
  ASSERT_TRUE(*(*reader)->Next(&row));
  EXPECT_EQ(row.values, "x");
  ASSERT_TRUE(*(*reader)->Next(&row));
  EXPECT_EQ(row.values, "y");
  EXPECT_FALSE(*(*reader)->Next(&row));
}

TEST_F(RowsWriterTest, SeesNoOtherFeed) {
  Publish(Folded({{"a1", "x"}}), Marker(1));
  RowsWriter neighbour(database_.get(), kFeed + 1);
  FoldedRows none;
  ASSERT_TRUE(neighbour.Publish(none, Marker(9)).ok());
  EXPECT_EQ(Scan(), (Lines{"@1", "x"}));
}

// proves O1 inside the store: whatever is staged and published, batch or file, the rows are those
// of a map.
TEST_F(RowsWriterTest, EqualsAMap) {
  std::mt19937 random(4711);
  std::map<std::string, std::string> model;
  for (uint64_t round = 1; round <= 60; ++round) {
    RowsWriter writer(database_.get(), kFeed);
    for (int stages = static_cast<int>(random() % 4); stages >= 0; --stages) {
      std::vector<std::string> truncated;
      if (random() % 5 == 0) {
        const std::string table(1, static_cast<char>('a' + random() % 3));
        truncated.push_back(Table(table));
        std::erase_if(model, [&](const auto& row) { return row.first.starts_with(table); });
      }
      std::map<std::string, std::string> rows;
      for (size_t n = random() % (random() % 8 == 0 ? 2000 : 20); n > 0; --n) {
        const std::string name =
            fmt::format("{}{}", static_cast<char>('a' + random() % 3), random() % 3000);
        const std::string value = random() % 3 == 0 ? "" : fmt::format("{}", random());
        rows[name] = value;
      }
      for (const auto& [name, value] : rows) {
        model.erase(name);
        if (!value.empty()) model[name] = value;
      }
      const FoldedRows folded = Folded(rows, truncated);
      ASSERT_TRUE((stages > 0 ? writer.Stage(folded) : writer.Publish(folded, Marker(round))).ok());
    }
    Lines expected = {fmt::format("@{}", round)};
    for (const auto& [name, value] : model) expected.push_back(value);
    ASSERT_EQ(Scan(), expected) << "round " << round;
  }
  Open();
  EXPECT_EQ(Scan().size(), model.size() + 1);
}

}  // namespace
}  // namespace tidemark::store
