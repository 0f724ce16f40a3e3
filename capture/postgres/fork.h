// Whether a server is PostgreSQL itself. A fork that speaks its protocol may report a place in its
// log before it has sent what lies there (K10), so nothing that rests on such reports is proved
// there. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tidemark::capture::postgres {

// Names of system functions that only forks have, as a list of SQL literals.
std::string ForkFunctionsSql();

// Empty for PostgreSQL itself, else what the server calls itself, for people. `version_text` is
// what version() says; `functions` those of ForkFunctionsSql() that the server has, by spaces.
std::string ForkOf(std::string_view version_text, std::string_view functions);

}  // namespace tidemark::capture::postgres
