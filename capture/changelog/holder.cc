#include "capture/changelog/holder.h"

#include <fmt/format.h>

#include "capture/postgres/sql_text.h"

namespace tidemark::capture::changelog {

std::string HolderText(uint64_t xid, const std::string& found, bool in_recovery,
                       const std::string& role) {
  if (!found.empty()) return fmt::format("transaction {}: {}", xid, found);
  if (in_recovery) {
    return fmt::format(
        "transaction {} of the primary: look there in pg_stat_activity and "
        "pg_prepared_xacts",
        xid);
  }
  return fmt::format(
      "transaction {}, which has just ended, or whose session role {} may not see: "
      "GRANT pg_read_all_stats TO {};",
      xid, role, postgres::QuoteIdentifier(role));
}

}  // namespace tidemark::capture::changelog
