// A fresh PostgreSQL cluster as a copy of one that initdb made once for all tests of a build
// folder: a tenth of initdb's time, for several hundred tests. Each copy is a cluster of its own,
// with a system identifier that no other has.
//
// Thread rule: none of its own; processes may call it at the same time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tidemark::testing {

struct NewCluster {
  std::filesystem::path bin_dir;
  std::filesystem::path
      scratch;       // its folder "data" is made; output of the programs goes beside it
  std::string user;  // who is to own it; empty: this process's own
  std::vector<std::string> initdb_arguments;
};

absl::Status MakeCluster(const NewCluster& cluster);

// Where the one that is copied stands, or will.
std::filesystem::path TemplateOf(const NewCluster& cluster);

}  // namespace tidemark::testing
