// Looks for everything that a PostgreSQL source lacks, and changes nothing.
#pragma once

#include <span>
#include <vector>

#include "capture/source_factory.h"
#include "proto/table_name.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::postgres {

// Connects as the feed would. Findings in the order in which they are to be mended; one kOk when
// there is nothing. Safe from any thread; waits at most a few times kConnectTimeout.
std::vector<Finding> CheckPostgres(const v1::FeedConfig& config,
                                   std::span<const TablePattern> tables);

}  // namespace tidemark::capture::postgres
