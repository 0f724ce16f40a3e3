#include "capture/postgres/temporal_text.h"

#include <cstring>

namespace tidemark::capture::postgres {
namespace {

bool IsInfinity(std::string_view text) { return text == "infinity" || text == "-infinity"; }

// Takes pieces from the front of a text.
struct Scanner {
  std::string_view left;

  bool Take(char c) {
    if (left.empty() || left[0] != c) return false;
    left.remove_prefix(1);
    return true;
  }
  bool Digits(size_t least, size_t most) {
    size_t count = 0;
    while (count < left.size() && left[count] >= '0' && left[count] <= '9') ++count;
    if (count < least || count > most) return false;
    left.remove_prefix(count);
    return true;
  }
  bool Date() { return Digits(4, 7) && Take('-') && Digits(2, 2) && Take('-') && Digits(2, 2); }
  bool Time() {
    if (!(Digits(2, 2) && Take(':') && Digits(2, 2) && Take(':') && Digits(2, 2))) return false;
    return !Take('.') || Digits(1, 6);
  }
  // Sets `zone` to the offset as printed.
  bool Zone(std::string_view* zone) {
    const std::string_view begin = left;
    if (!Take('+') && !Take('-')) return false;
    if (!Digits(2, 2) || (Take(':') && !Digits(2, 2)) || (Take(':') && !Digits(2, 2))) return false;
    *zone = begin.substr(0, begin.size() - left.size());
    return true;
  }
  bool EraAndEnd() { return left.empty() || left == " BC"; }
};

void Append(std::string_view text, TemporalText* out) {
  std::memcpy(out->buffer + out->size, text.data(), text.size());
  out->size += text.size();
}

// +02 → +02:00, +00 → Z; ISO 8601 wants minutes with a time in extended form.
void AppendZone(std::string_view zone, TemporalText* out) {
  if (zone == "+00") return Append("Z", out);
  Append(zone, out);
  if (zone.size() == 3) Append(":00", out);
}

// What is left behind date and time stays in `scanner`.
bool ConvertDateAndTime(std::string_view text, Scanner* scanner, TemporalText* out) {
  if (!scanner->Date() || !scanner->Take(' ')) return false;
  const size_t time_at = text.size() - scanner->left.size();
  if (!scanner->Time()) return false;
  Append(text.substr(0, text.size() - scanner->left.size()), out);
  out->buffer[time_at - 1] = 'T';
  return true;
}

}  // namespace

bool IsDate(std::string_view text) {
  Scanner scanner{text};
  return (scanner.Date() && scanner.EraAndEnd()) || IsInfinity(text);
}

bool IsTime(std::string_view text) {
  Scanner scanner{text};
  return scanner.Time() && scanner.left.empty();
}

bool IsInterval(std::string_view text) {
  if (IsInfinity(text)) return true;
  return text.size() >= 3 && text[0] == 'P' &&
         text.find_first_not_of("0123456789+-.YMWDTHS", 1) == std::string_view::npos;
}

bool ConvertTimeWithZone(std::string_view text, TemporalText* out) {
  Scanner scanner{text};
  std::string_view zone;
  if (!scanner.Time()) return false;
  Append(text.substr(0, text.size() - scanner.left.size()), out);
  if (!scanner.Zone(&zone) || !scanner.left.empty()) return false;
  AppendZone(zone, out);
  return true;
}

bool ConvertTimestamp(std::string_view text, TemporalText* out) {
  Scanner scanner{text};
  if (IsInfinity(text)) return Append(text, out), true;
  if (!ConvertDateAndTime(text, &scanner, out) || !scanner.EraAndEnd()) return false;
  Append(scanner.left, out);
  return true;
}

bool ConvertTimestampWithZone(std::string_view text, TemporalText* out) {
  Scanner scanner{text};
  std::string_view zone;
  if (IsInfinity(text)) return Append(text, out), true;
  if (!ConvertDateAndTime(text, &scanner, out) || !scanner.Zone(&zone)) return false;
  if (zone != "+00" || !scanner.EraAndEnd()) return false;
  AppendZone(zone, out);
  Append(scanner.left, out);
  return true;
}

}  // namespace tidemark::capture::postgres
