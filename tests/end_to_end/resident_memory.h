// Resident memory of another process, as the kernel counts it.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace tidemark::testing {

// In MiB: now ("VmRSS") or at its highest ("VmHWM"); 0 when the process is gone.
inline double ResidentMiB(pid_t pid, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stod(line.substr(field.size() + 1)) / 1024;
  }
  return 0;
}

}  // namespace tidemark::testing
