// The kinds of changes as they are written on the command line. Pure.
#pragma once

#include <map>
#include <string>

#include "tidemark/v1/change.pb.h"

namespace tidemark::command {

inline const std::map<std::string, v1::Op>& OpNames() {
  static const std::map<std::string, v1::Op> names = {{"insert", v1::OP_INSERT},
                                                      {"update", v1::OP_UPDATE},
                                                      {"delete", v1::OP_DELETE},
                                                      {"truncate", v1::OP_TRUNCATE},
                                                      {"read", v1::OP_READ}};
  return names;
}

}  // namespace tidemark::command
