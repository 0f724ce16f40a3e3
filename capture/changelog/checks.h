// Looks for everything that a changelog lacks to be a source, and changes nothing.
#pragma once

#include <vector>

#include "capture/source_factory.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::changelog {

// Connects as the feed would. Findings in the order in which they are to be mended; one kOk when
// there is nothing. Safe from any thread; waits at most a few times kConnectTimeout.
std::vector<Finding> CheckChangelog(const v1::FeedConfig& config);

}  // namespace tidemark::capture::changelog
