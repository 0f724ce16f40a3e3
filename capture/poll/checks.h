// Looks for everything that a polled source lacks, and changes nothing.
#pragma once

#include <vector>

#include "capture/source_factory.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture {

// Connects as the feed would. Findings in the order in which they are to be mended; one kOk when
// there is nothing. REQUIRES: config.has_poll(). Safe from any thread; waits at most a few times
// poll::kConnectTimeout.
std::vector<Finding> CheckPoll(const v1::FeedConfig& config);

}  // namespace tidemark::capture
