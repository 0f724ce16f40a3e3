#include "client/json_line.h"

#include <fmt/format.h>

#include "proto/value_json.h"

namespace tidemark::client {
namespace {

void AppendBefore(const ChangeView& change, std::string* out) {
  std::string members;
  const auto& columns = change.schema().columns();
  for (int i = 0; i < columns.size() && i < change.before().size(); ++i) {
    if (!IsAbsent(change.before()[i]))
      AppendJsonColumn(columns[i].name(), change.before()[i], &members);
  }
  if (members.empty()) return;
  out->append(",\"__before\":{");
  out->append(members, 1);
  out->push_back('}');
}

}  // namespace

std::string JsonLine(const ChangeView& change, std::string_view cursor) {
  std::string line = fmt::format(R"({{"__op":"{}","__pos":"{}","__seq":{},"__table":)",
                                 OpText(change.op()), change.position(), change.sequence());
  AppendJsonString(change.table(), &line);
  if (change.key_change()) line.append(",\"__key_change\":true");
  const auto& columns = change.schema().columns();
  if (change.op() != v1::OP_TRUNCATE) {
    for (int i = 0; i < columns.size(); ++i) {
      const v1::Value* const value = change.Column(i);
      if (value != nullptr) AppendJsonColumn(columns[i].name(), *value, &line);
    }
  }
  AppendBefore(change, &line);
  line.push_back('}');
  if (!cursor.empty()) AddCursor(cursor, &line);
  return line;
}

void AddCursor(std::string_view cursor, std::string* line) {
  line->pop_back();
  line->append(",\"__cursor\":");
  AppendJsonString(cursor, line);
  line->push_back('}');
}

}  // namespace tidemark::client
