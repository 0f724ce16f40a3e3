#include "server/state_log.h"

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace tidemark {
namespace {

// SOURCE_STATE_STREAMING becomes streaming.
std::string StateName(const std::string& name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

}  // namespace

void StateLog::Update() {
  for (const auto& feed : feeds_.feeds()) {
    if (feed->dropped()) continue;
    const v1::FeedStatus status = feed->Status();
    UpdateTables(feed->name(), status);
    v1::SourceState& last = last_[feed->name()];
    if (status.source_state() == last) continue;
    last = status.source_state();
    log_.Info("source state",
              {{"feed", feed->name()},
               {"state", StateName(v1::SourceState_Name(status.source_state()), "SOURCE_STATE_")},
               {"detail", status.detail()},
               {"position", status.checkpoint().native_position()}});
  }
}

void StateLog::UpdateTables(const std::string& feed, const v1::FeedStatus& status) {
  for (const v1::TableStatus& table : status.tables()) {
    const auto [last, is_new] =
        last_of_tables_.try_emplace({feed, table.table()}, v1::TABLE_FOLLOW_STATE_FOLLOWED);
    if (last->second == table.state()) continue;
    last->second = table.state();
    EventFields fields = {
        {"feed", feed},
        {"table", table.table()},
        {"state", StateName(v1::TableFollowState_Name(table.state()), "TABLE_FOLLOW_STATE_")},
        {"detail", table.detail()},
        {"rows_read", std::to_string(table.rows_read())},
        {"changes_made", std::to_string(table.changes_made())}};
    if (table.state() != v1::TABLE_FOLLOW_STATE_FAILED) {
      log_.Info("table state", fields);
      continue;
    }
    fields.push_back({"reason", table.error().reason()});
    fields.push_back({"message", table.error().message()});
    log_.Warning("table state", fields);
  }
}

}  // namespace tidemark
