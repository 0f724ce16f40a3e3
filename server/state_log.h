// Logs every change of a source's state, as seen from outside.
#pragma once

#include <map>
#include <string>

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
  std::map<std::string, v1::SourceState> last_;
};

}  // namespace tidemark
