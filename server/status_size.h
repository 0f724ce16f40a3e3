// What of a status fits into one message. Pure.
#pragma once

#include <cstddef>

#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Leaves out as few entries of tables as it takes for `status` to have at most `bytes_max` bytes:
// first those in a good state, last those that need a person. Each feed says how many.
void FitStatus(size_t bytes_max, v1::GetStatusResponse* status);

}  // namespace tidemark
