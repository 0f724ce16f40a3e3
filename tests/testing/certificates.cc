#include "tests/testing/certificates.h"

#include <chrono>

#include "tests/testing/process.h"

namespace tidemark::testing {

absl::Status Certificates::MakeAuthority(const std::string& name) {
  return Make(name, {"-subj", "/CN=" + name});
}

absl::Status Certificates::MakeServer(const std::string& name, const std::string& authority,
                                      const std::string& names) {
  return Make(name, {"-subj", "/CN=tidemark", "-addext", "subjectAltName=" + names, "-addext",
                     "basicConstraints=critical,CA:FALSE", "-CA", Certificate(authority), "-CAkey",
                     Key(authority)});
}

absl::Status Certificates::Make(const std::string& name, std::vector<std::string> arguments) {
  ProcessOptions options;
  options.argv = {
      "openssl", "req",   "-x509", "-newkey", "ec",      "-pkeyopt", "ec_paramgen_curve:prime256v1",
      "-nodes",  "-days", "2",     "-keyout", Key(name), "-out",     Certificate(name)};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.output_dir = scratch_.path();
  options.name = "openssl";
  return RunCommand(std::move(options), std::chrono::seconds(60)).status();
}

}  // namespace tidemark::testing
