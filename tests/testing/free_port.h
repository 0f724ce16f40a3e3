// A TCP port on 127.0.0.1 that nothing listens on.
#pragma once

#include <cstdint>

namespace tidemark::testing {

// No port is given twice to tests that run at the same time: each is drawn from below the kernel's
// ephemeral range, so that no outgoing connection takes it, and reserved until this process exits.
// Aborts when none is left. Thread-safe.
uint16_t FreePort();

}  // namespace tidemark::testing
