// Certificate authorities of a test's own, and certificates that they signed, as files in a scratch
// folder: NAME.pem and, readable by their owner alone, NAME.key. Made by the program openssl.
//
// Thread rule: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {

class Certificates {
 public:
  absl::Status MakeAuthority(const std::string& name);
  // Of a server that answers to `names`: "DNS:localhost,IP:127.0.0.1".
  absl::Status MakeServer(const std::string& name, const std::string& authority,
                          const std::string& names);

  std::string Certificate(const std::string& name) const { return File(name + ".pem"); }
  std::string Key(const std::string& name) const { return File(name + ".key"); }

 private:
  std::string File(const std::string& name) const { return (scratch_ / name).string(); }
  absl::Status Make(const std::string& name, std::vector<std::string> arguments);

  ScratchDir scratch_{"tls"};
};

}  // namespace tidemark::testing
