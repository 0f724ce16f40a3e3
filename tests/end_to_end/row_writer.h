// Changes rows of public.big (id int primary key, v int, note text) at random, on a thread of its
// own: updates, deletes, rows that come again, and changes of the key across the place where a
// reading stands, either way.
//
// Thread rule: that of StatementWriter.
#pragma once

#include <fmt/format.h>

#include <random>

#include "tests/end_to_end/statement_writer.h"

namespace tidemark::testing {

class RowWriter : public StatementWriter {
 public:
  RowWriter(const LivePostgres& postgres, int rows, uint64_t seed)
      : StatementWriter(postgres, [rows, random = std::mt19937_64(seed)](int) mutable {
          const int id = static_cast<int>(random() % rows);
          switch (random() % 8) {
            case 0:
              return fmt::format("delete from big where id = {}", id);
            case 1:  // Across the place where the reading stands, either way.
              return fmt::format(
                  "update big set id = {0} where id = {1} and not exists (select from big "
                  "where id = {0})",
                  static_cast<int>(random() % rows), id);
            case 2:
              return fmt::format(
                  "begin; delete from big where id = {0}; insert into big values ({0}, 0, "
                  "'again'); commit",
                  id);
            default:
              return fmt::format("update big set v = v + 1 where id between {} and {}", id, id + 3);
          }
        }) {}
};

}  // namespace tidemark::testing
