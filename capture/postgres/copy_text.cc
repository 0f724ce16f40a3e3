#include "capture/postgres/copy_text.h"

namespace tidemark::capture::postgres {
namespace {

char Unescaped(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return c;
  }
}

// Appends the text that `column` stands for; false when it ends inside an escape.
bool Unescape(std::string_view column, std::string* out) {
  while (true) {
    const size_t escape = column.find('\\');
    out->append(column.substr(0, escape));
    if (escape == std::string_view::npos) return true;
    if (escape + 1 == column.size()) return false;
    out->push_back(Unescaped(column[escape + 1]));
    column.remove_prefix(escape + 2);
  }
}

}  // namespace

bool SplitCopyLine(std::string_view line, std::string* scratch,
                   std::vector<std::optional<std::string_view>>* columns) {
  columns->clear();
  scratch->clear();
  // Text never grows by being unescaped, so that views into it stay valid.
  scratch->reserve(line.size());
  while (true) {
    const size_t tab = line.find('\t');
    const std::string_view column = line.substr(0, tab);
    if (column == "\\N") {
      columns->push_back(std::nullopt);
    } else if (column.find('\\') == std::string_view::npos) {
      columns->push_back(column);
    } else {
      const size_t begin = scratch->size();
      if (!Unescape(column, scratch)) return false;
      columns->push_back(std::string_view(*scratch).substr(begin));
    }
    if (tab == std::string_view::npos) return true;
    line.remove_prefix(tab + 1);
  }
}

}  // namespace tidemark::capture::postgres
