#include "proto/table_name.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tidemark {
namespace {

bool IsBare(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }
bool IsWildcard(char c) { return c == '*' || c == '?'; }

bool NeedsQuotes(std::string_view name) {
  for (char c : name) {
    if (!IsBare(c)) return true;
  }
  return name.empty();
}

std::string QuotedIfNeeded(std::string_view name) {
  if (!NeedsQuotes(name)) return std::string(name);
  std::string text = "\"";
  for (char c : name) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

// Length of the UTF-8 character that begins with `lead`: ? stands for a character, not for a byte.
size_t CharacterBytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte >= 0xF0) return 4;
  if (byte >= 0xE0) return 3;
  return byte >= 0xC0 ? 2 : 1;
}

bool GlobMatches(std::string_view glob, std::string_view name) {
  // The last * seen, and where its run of characters ends for now: enough to try again from, so the
  // work is at most the product of both lengths.
  size_t star = std::string_view::npos;
  size_t star_end = 0;
  size_t g = 0;
  size_t n = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '?') {
      ++g;
      n += CharacterBytes(name[n]);
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_end = n;
    } else if (g < glob.size() && glob[g] == name[n]) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      star_end += CharacterBytes(name[star_end]);
      n = star_end;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size() && n == name.size();
}

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      absl::string_view(what.data(), what.size()),
      "; write schema.table, and put a part that is not lower-case letters, digits and _ (or * "
      "and ? for a glob) in double quotes: public.orders, public.\"Order.Lines\", app.*"));
}

}  // namespace

std::string TableNameText(std::string_view schema, std::string_view table) {
  return QuotedIfNeeded(schema) + "." + QuotedIfNeeded(table);
}

absl::StatusOr<TablePattern::Part> TablePattern::ParsePart(std::string_view* rest) {
  Part part;
  if (rest->empty() || rest->front() != '"') {
    size_t length = 0;
    while (length < rest->size() && (IsBare((*rest)[length]) || IsWildcard((*rest)[length]))) {
      part.glob |= IsWildcard((*rest)[length]);
      ++length;
    }
    if (length == 0) {
      return Malformed(rest->empty() ? "a part of the table name is missing"
                                     : "a table name holds a character that needs double quotes");
    }
    part.text = rest->substr(0, length);
    rest->remove_prefix(length);
    return part;
  }
  for (size_t i = 1; i < rest->size(); ++i) {
    if ((*rest)[i] != '"') {
      part.text += (*rest)[i];
    } else if (i + 1 < rest->size() && (*rest)[i + 1] == '"') {
      part.text += '"';
      ++i;
    } else {
      if (part.text.empty()) return Malformed("a quoted part of the table name is empty");
      rest->remove_prefix(i + 1);
      return part;
    }
  }
  return Malformed("a double quote in the table name is not closed");
}

absl::StatusOr<TablePattern> TablePattern::Parse(std::string_view text) {
  TablePattern pattern;
  absl::StatusOr<Part> schema = ParsePart(&text);
  if (!schema.ok()) return schema.status();
  if (text.empty()) return Malformed("the table name has no schema");
  if (text.front() != '.') {
    return Malformed("a table name holds a character that needs double quotes");
  }
  text.remove_prefix(1);
  absl::StatusOr<Part> table = ParsePart(&text);
  if (!table.ok()) return table.status();
  if (!text.empty()) {
    return Malformed(text.front() == '.'
                         ? "a table name has two parts, this one has more"
                         : "a table name holds a character that needs double quotes");
  }
  pattern.schema_ = *std::move(schema);
  pattern.table_ = *std::move(table);
  return pattern;
}

bool TablePattern::Matches(std::string_view schema, std::string_view table) const {
  const auto fits = [](const Part& part, std::string_view name) {
    return part.glob ? GlobMatches(part.text, name) : part.text == name;
  };
  return fits(schema_, schema) && fits(table_, table);
}

std::string TablePattern::Text() const {
  const auto text = [](const Part& part) {
    return part.glob ? part.text : QuotedIfNeeded(part.text);
  };
  return text(schema_) + "." + text(table_);
}

}  // namespace tidemark
