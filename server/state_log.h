// Logs every change of a source's state, and of that of a table, as seen from outside.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "server/event_log.h"
#include "server/feed.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Thread rule: one thread. Everything given is lent.
class StateLog {
 public:
  StateLog(const FeedDirectory& feeds, EventLog& log) : feeds_(feeds), log_(log) {}

  // Looks at every feed once.
  void Update();

 private:
  const FeedDirectory& feeds_;
  EventLog& log_;
  void UpdateTables(const std::string& feed, const v1::FeedStatus& status);

  std::map<std::string, v1::SourceState> last_;
  // By feed and table.
  std::map<std::pair<std::string, std::string>, v1::TableFollowState> last_of_tables_;
};

}  // namespace tidemark
