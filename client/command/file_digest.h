// What a file holds, in one number.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tidemark::command {

// SHA-256 of everything that can be read from `fd` from its beginning on, in hexadecimal. The file
// is read again rather than summed up while it is written: what counts is what the disk has.
absl::StatusOr<std::string> Sha256OfFile(int fd);

}  // namespace tidemark::command
