// Who holds the watermark back, in words. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace tidemark::capture::changelog {

// `found`: what the server says of the session or prepared transaction with this id; empty:
// nothing that `role` may see.
std::string HolderText(uint64_t xid, const std::string& found, bool in_recovery,
                       const std::string& role);

}  // namespace tidemark::capture::changelog
