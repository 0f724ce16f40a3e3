#include "server/page_token.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "server/request_error.h"

namespace tidemark {
namespace {

// '.' is no character of a cursor.
constexpr std::string_view kPrefix = "page.";

template <typename Number>
bool ParseHex(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

std::string_view TakeUntilDot(std::string_view* rest) {
  const size_t dot = rest->find('.');
  const std::string_view taken = rest->substr(0, dot);
  rest->remove_prefix(dot == std::string_view::npos ? rest->size() : dot + 1);
  return taken;
}

}  // namespace

std::string PageTokenText(const InsidePosition& inside) {
  return fmt::format("{}{}.{:x}.{:x}", kPrefix, inside.position.Text(), inside.sequence,
                     inside.part);
}

absl::StatusOr<InsidePosition> ParsePageToken(std::string_view text) {
  InsidePosition inside;
  std::string_view rest = text;
  bool ok = rest.substr(0, kPrefix.size()) == kPrefix;
  if (ok) {
    rest.remove_prefix(kPrefix.size());
    auto position = Position::FromText(TakeUntilDot(&rest));
    ok = position.ok() && ParseHex(TakeUntilDot(&rest), &inside.sequence) &&
         ParseHex(rest, &inside.part);
    if (ok) inside.position = *position;
  }
  if (ok && PageTokenText(inside) == text) return inside;
  return InvalidRequest("page_token",
                        "not a token of a page before; begin again at the last cursor");
}

Position BoundaryBefore(const Position& position) {
  std::string bytes(position.bytes());
  for (size_t i = bytes.size(); i-- > 0;) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    bytes[i] = static_cast<char>(byte - 1);
    if (byte != 0) break;
  }
  return *Position::FromBytes(bytes);
}

}  // namespace tidemark
