// tidemarkd --check: looks at every source without changing it, and prints what is missing with
// what mends it.
#pragma once

#include <string>
#include <vector>

#include "capture/source_factory.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark {

// The findings of one feed as text; pure.
std::string FindingsText(const v1::FeedConfig& feed, const std::vector<capture::Finding>& findings);

// Prints the findings of every feed to standard output; true when none is an error.
bool CheckSources(const v1::Config& config);

}  // namespace tidemark
