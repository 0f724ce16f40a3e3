// Names and texts as they stand in SQL. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tidemark::capture::postgres {

// In double quotes, whatever the name holds.
std::string QuoteIdentifier(std::string_view name);
std::string QuoteTable(std::string_view schema, std::string_view table);
// Each as by QuoteIdentifier, with commas between them.
std::string QuoteList(const std::vector<std::string>& names);

// In single quotes. With standard_conforming_strings (pinned on every session) a backslash is an
// ordinary character.
std::string QuoteLiteral(std::string_view text);

}  // namespace tidemark::capture::postgres
