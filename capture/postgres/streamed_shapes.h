// What the stream says of the tables between two looks at the catalog. A column that is renamed and
// renamed back looks at both ends as if nothing had happened; rows that were written meanwhile were
// told under the other shape, and are to be read again. So does a partition that was attached for a
// moment, and whose rows stay behind.
//
// The stream may be behind a look: what was committed before the look is compared with the stream
// alone. Thread rule: one thread at a time. Memory: columns of the tables that the stream announced
// and the catalog has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "capture/postgres/lsn.h"
#include "capture/postgres/relation_cache.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

class StreamedShapes {
 public:
  using Name = std::pair<std::string, std::string>;

  // The stream announced a table, for changes that were committed at `commit`.
  void Announced(const RelationDescription& table, Lsn commit);
  // Whether something was announced since the last call.
  bool TakeNews() { return std::exchange(news_, false); }
  // Rows of this partition, committed at `commit`, were streamed under the name of its root.
  void PartStreamed(const Name& root, uint32_t part_oid, Lsn commit);
  // A look at `at` has the table read again: what was streamed of it before says nothing more. A
  // transaction that is streamed while it is in progress announces partitions again, which may be
  // gone when it comes to be told.
  void ReadsAgain(const Name& name, Lsn at) { histories_[name].read_from = at; }
  // Those since the last call.
  std::set<std::pair<Name, uint32_t>> TakeParts() { return std::exchange(parts_, {}); }
  // The table of this name as a look at `at` finds it: why rows that were streamed since the last
  // look may hold something else than they were told with; empty: they do not.
  std::string Seen(const Name& name, const v1::PostgresTableFacts& facts, Lsn at);

 private:
  using Shape = std::map<std::string, uint32_t>;  // name to type
  struct History {
    std::optional<Shape> last;   // announced, or seen before that
    std::set<std::string> gone;  // columns that were there since the last look
    std::string cause;
    bool announced = false;  // since the last look
    Shape looked;
    Lsn looked_at = 0;  // 0: not yet, or `last` is newer
    Lsn read_from = 0;
  };

  static Shape ShapeOf(const v1::PostgresTableFacts& facts);
  static void Compare(const Shape& shape, History* history);

  std::map<Name, History> histories_;
  std::set<std::pair<Name, uint32_t>> parts_;
  bool news_ = false;
};

}  // namespace tidemark::capture::postgres
