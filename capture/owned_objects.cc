#include "capture/owned_objects.h"

#include <fmt/format.h>

#include "capture/postgres/sql_text.h"

namespace tidemark::capture {
namespace {

void AddObjects(const std::string& database, const std::string& slot,
                const std::string& publication, bool made, std::vector<std::string>* objects) {
  if (!slot.empty()) objects->push_back(SlotText(slot, database));
  if (!publication.empty()) objects->push_back(PublicationText(publication, database, made));
}

}  // namespace

std::string SlotText(const std::string& slot, const std::string& database) {
  return fmt::format("slot {} of database {}: SELECT pg_drop_replication_slot({})", slot, database,
                     postgres::QuoteLiteral(slot));
}

std::string PublicationText(const std::string& publication, const std::string& database,
                            bool made) {
  return fmt::format("publication {} in database {}{}: DROP PUBLICATION {}", publication, database,
                     made ? "" : ", which was not made for the feed",
                     postgres::QuoteIdentifier(publication));
}

std::vector<std::string> OwnedObjects(const v1::Checkpoint& checkpoint) {
  std::vector<std::string> objects;
  const v1::PostgresCheckpoint& log = checkpoint.postgres();
  AddObjects(log.database(), log.slot(), log.publication(), log.publication_made(), &objects);
  // One that is under way; a move that has ended left nothing beside what the log has.
  const v1::MigrationRecord& move = checkpoint.migration();
  if (!checkpoint.has_postgres() && move.phase() != v1::MIGRATION_PHASE_UNSPECIFIED) {
    AddObjects(move.postgres().database(), move.slot(), move.publication(), true, &objects);
  }
  return objects;
}

}  // namespace tidemark::capture
