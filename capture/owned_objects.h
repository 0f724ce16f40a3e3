// What was made at the source for a feed, as far as its checkpoint tells: texts for people, each
// with the statement that drops it. Pure.
#pragma once

#include <string>
#include <vector>

#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture {

std::string SlotText(const std::string& slot, const std::string& database);
// `made`: for the feed.
std::string PublicationText(const std::string& publication, const std::string& database, bool made);

std::vector<std::string> OwnedObjects(const v1::Checkpoint& checkpoint);

}  // namespace tidemark::capture
