// An engine of polls that says what the test has it say, of one table: id (the key), at (the
// cursor) and a.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "capture/poll/poll_engine.h"
#include "capture/value_writer.h"

namespace tidemark::capture::poll {

inline v1::TableSchema ScriptedSchema() {
  v1::TableSchema schema;
  schema.set_schema_id(7);
  schema.set_schema_name("public");
  schema.set_table_name("t");
  for (const char* name : {"id", "at", "a"}) schema.add_columns()->set_name(name);
  schema.add_key_columns(0);
  return schema;
}

// A row whose image says id, at and a.
inline PolledRow ScriptedRow(int64_t id, const std::string& at, const std::string& a = "x") {
  PolledRow row;
  AppendInteger(ValueTag::kAfter, id, &row.after);
  AppendText(ValueTag::kAfter, at, &row.after);
  AppendText(ValueTag::kAfter, a, &row.after);
  AppendInteger(ValueTag::kKey, id, &row.key_image);
  row.key = {std::to_string(id)};
  row.cursor = at;
  return row;
}

inline PolledRow ScriptedTombstone(int64_t id, const std::string& at) {
  PolledRow row = ScriptedRow(id, at);
  row.after.clear();
  row.tombstone = true;
  return row;
}

class ScriptedEngine : public PollEngine {
 public:
  std::vector<Finding> Check() const override { return {}; }
  absl::Status Open(const v1::PollCheckpoint&) override { return absl::OkStatus(); }
  void Close() override {}
  bool is_open() const override { return true; }
  void FillIdentity(v1::PollCheckpoint*) const override {}
  absl::StatusOr<PollMoment> BeginPoll() override { return PollMoment(); }
  absl::Status EndPoll() override { return absl::OkStatus(); }
  absl::StatusOr<absl::Time> Clock() override { return absl::Now(); }
  absl::StatusOr<TableWindow> BeginTable(size_t, const CursorPlace& bound,
                                         const CursorPlace&) override {
    bounds.push_back(bound);
    return window;
  }
  absl::Status ReturnToTable(size_t) override { return absl::OkStatus(); }
  absl::StatusOr<CursorPlace> FindTop(size_t, bool) override { return top; }
  absl::StatusOr<uint64_t> CountNulls(size_t, uint64_t) override { return nulls; }
  absl::StatusOr<RowPage> ReadPage(size_t, const PageOrder& order) override {
    orders.push_back(order);
    std::deque<RowPage>& of_part = pages[order.part];
    if (of_part.empty()) return RowPage{.rows = {}, .at_end = true};
    RowPage page = std::move(of_part.front());
    of_part.pop_front();
    return page;
  }
  bool OfTable(const absl::Status&) const override { return true; }
  bool Conflicted(const absl::Status&) const override { return false; }
  std::string KeyText(const v1::Value& value) const override {
    return std::to_string(value.integer());
  }
  void Interrupt() override {}
  void ConsumeInterrupt() override {}

  TableWindow window;
  CursorPlace top;
  uint64_t nulls = 0;
  std::map<PageOrder::Part, std::deque<RowPage>> pages;
  std::vector<CursorPlace> bounds;
  std::vector<PageOrder> orders;
};

}  // namespace tidemark::capture::poll
