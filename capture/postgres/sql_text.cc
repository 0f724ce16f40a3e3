#include "capture/postgres/sql_text.h"

namespace tidemark::capture::postgres {
namespace {

std::string Quoted(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (char c : text) {
    if (c == quote) quoted.push_back(quote);
    quoted.push_back(c);
  }
  quoted.push_back(quote);
  return quoted;
}

}  // namespace

std::string QuoteIdentifier(std::string_view name) { return Quoted(name, '"'); }

std::string QuoteTable(std::string_view schema, std::string_view table) {
  std::string text = QuoteIdentifier(schema);
  text.push_back('.');
  return text + QuoteIdentifier(table);
}

std::string QuoteList(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + QuoteIdentifier(name);
  }
  return list;
}

std::string QuoteLiteral(std::string_view text) { return Quoted(text, '\''); }

}  // namespace tidemark::capture::postgres
