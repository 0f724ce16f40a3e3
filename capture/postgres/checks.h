// Looks for everything that a PostgreSQL source lacks, and changes nothing.
#pragma once

#include <span>
#include <vector>

#include "capture/source_factory.h"
#include "proto/table_name.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::postgres {

class Interruption;

// Connects as the feed would. Findings in the order in which they are to be mended; one kOk when
// there is nothing. Safe from any thread; waits at most a few times kConnectTimeout. Where an
// interruption is lent, each wait ends soon once it is raised, and what was not asked is a finding.
std::vector<Finding> CheckPostgres(const v1::FeedConfig& config,
                                   std::span<const TablePattern> tables,
                                   Interruption* interruption = nullptr);

}  // namespace tidemark::capture::postgres
