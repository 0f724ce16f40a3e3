// Polling on PostgreSQL: one session, one read-only REPEATABLE READ transaction for each poll.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_settings.h"
#include "capture/poll/postgres_page_sql.h"
#include "capture/poll/postgres_table.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/row_encoder.h"
#include "capture/postgres/server_identity.h"
#include "capture/postgres/target.h"

namespace tidemark::capture::poll {

// What the rows of a page hold at most, plus the one that passes the bound.
inline constexpr size_t kPageBytesMax = 1 << 20;
// How long what is known of a table is believed although a type that it is made of may have
// changed.
inline constexpr absl::Duration kTableLookPeriod = absl::Seconds(30);

class PostgresEngine final : public PollEngine {
 public:
  PostgresEngine(postgres::Target target, PollSettings settings);

  std::vector<Finding> Check() const override;
  absl::Status Open(const v1::PollCheckpoint& checkpoint) override;
  void Close() override;
  bool is_open() const override { return session_ != nullptr; }
  void FillIdentity(v1::PollCheckpoint* checkpoint) const override;
  void SetFenced(bool fenced) override { fenced_ = fenced; }
  absl::StatusOr<PollMoment> BeginPoll() override;
  absl::Status EndPoll() override;
  absl::StatusOr<absl::Time> Clock() override;
  absl::StatusOr<TableWindow> BeginTable(size_t table, const CursorPlace& bound,
                                         const CursorPlace& tombstone_bound) override;
  absl::Status ReturnToTable(size_t table) override;
  absl::StatusOr<CursorPlace> FindTop(size_t table, bool tombstones) override;
  absl::StatusOr<uint64_t> CountNulls(size_t table, uint64_t count_max) override;
  absl::StatusOr<RowPage> ReadPage(size_t table, const PageOrder& order) override;
  bool OfTable(const absl::Status& status) const override;
  bool Conflicted(const absl::Status& status) const override;
  std::string KeyText(const v1::Value& value) const override;
  void Interrupt() override { interruption_.Raise(); }
  void ConsumeInterrupt() override { interruption_.Consume(); }

 private:
  struct Table {
    std::optional<PostgresTable> known;
    absl::Time looked = absl::InfinitePast();
    WindowTexts window;
    // Rows of the next page, where rows are so large that fewer fit.
    uint32_t rows_max = UINT32_MAX;
  };

  absl::Time Deadline() const;
  absl::StatusOr<postgres::ResultRows> Ask(const std::string& sql, std::string_view doing);
  // Errors of the statement leave the transaction as it was when the table began.
  absl::StatusOr<postgres::ResultRows> AskOfTable(const std::string& sql, size_t table);
  absl::Status BackToTable(const absl::Status& error);
  absl::StatusOr<std::optional<std::string>> Hold(size_t table);
  absl::Status LookAgain(size_t table, const std::string& fingerprint);
  absl::StatusOr<TableWindow> ReadWindow(size_t table, const CursorPlace& bound,
                                         const CursorPlace& tombstone_bound);
  absl::Status ReadLines(const std::string& sql, size_t table, bool cut,
                         std::vector<std::string>* lines, bool* was_cut);
  absl::StatusOr<PolledRow> RowOf(const PostgresTable& table, std::string_view line);
  absl::Status LookWhoWrites(PollMoment* moment);
  absl::Status LookAtReplay(PollMoment* moment);

  const postgres::Target target_;
  const PollSettings settings_;
  postgres::Interruption interruption_;
  std::unique_ptr<postgres::Connection> session_;
  postgres::ServerIdentity server_;
  std::vector<Table> tables_;
  std::string clock_text_;
  absl::Time clock_;
  absl::Duration replay_lag_;
  bool fenced_ = true;
  postgres::RowEncoder encoder_;
};

}  // namespace tidemark::capture::poll
