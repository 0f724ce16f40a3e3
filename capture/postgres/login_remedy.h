// What lets the capturing role in, for an error of connecting. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "capture/postgres/target.h"

namespace tidemark::capture::postgres {

// SQL, or a line of pg_hba.conf; empty where neither helps. `message` as the server words it.
std::string LoginRemedy(std::string_view message, const Target& target);

}  // namespace tidemark::capture::postgres
