// What an operator wants of one table of a running feed. A plain value.
#pragma once

#include <string>

namespace tidemark::capture {

struct TableOrder {
  enum class Kind {
    // Captured from now on, whatever the configuration says; its rows are read.
    kAdd,
    // Not captured any more, whatever the configuration says.
    kRemove,
    // Its rows are read again, and what differs is told.
    kRead,
  };
  Kind kind = Kind::kRead;
  std::string schema;
  std::string table;
  // kRemove: subscribers are told that the table is empty.
  bool truncate = false;
};

}  // namespace tidemark::capture
