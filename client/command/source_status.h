// What tidemark status says of a source that is no log, and of the way from one to the other. Pure.
#pragma once

#include <string>

#include "tidemark/v1/admin.pb.h"

namespace tidemark::command {

// Whole lines, indented as what belongs to a feed; empty for a source that has nothing of it.
std::string SourceStatusText(const v1::FeedStatus& feed);

}  // namespace tidemark::command
