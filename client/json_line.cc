#include "client/json_line.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "absl/strings/escaping.h"

namespace tidemark::client {
namespace {

constexpr std::string_view kReservedPrefix = "__";

void AppendBase64(std::string_view bytes, std::string* out) {
  out->push_back('"');
  out->append(absl::Base64Escape(absl::string_view(bytes.data(), bytes.size())));
  out->push_back('"');
}

template <typename Float>
void AppendFloat(Float value, std::string* out) {
  if (std::isnan(value)) {
    out->append("\"NaN\"");
  } else if (std::isinf(value)) {
    out->append(value < 0 ? "\"-Infinity\"" : "\"Infinity\"");
  } else {
    fmt::format_to(std::back_inserter(*out), "{}", value);
  }
}

template <typename Items, typename Append>
void AppendArray(const Items& items, const Append& append, std::string* out) {
  out->push_back('[');
  bool first = true;
  for (const auto& item : items) {
    if (!first) out->push_back(',');
    first = false;
    append(item, out);
  }
  out->push_back(']');
}

void AppendList(const v1::ListValue& list, std::string* out) {
  if (list.lower_bounds_size() > 0) {
    out->append("{\"lower_bounds\":");
    AppendArray(
        list.lower_bounds(),
        [](int32_t bound, std::string* to) { to->append(fmt::format_int(bound).c_str()); }, out);
    out->append(",\"items\":");
  }
  AppendArray(list.items(), AppendJsonValue, out);
  if (list.lower_bounds_size() > 0) out->push_back('}');
}

void AppendColumnName(std::string_view name, std::string* out) {
  if (name.substr(0, kReservedPrefix.size()) != kReservedPrefix) {
    AppendJsonString(name, out);
    return;
  }
  std::string escaped = "_";
  escaped.append(name);
  AppendJsonString(escaped, out);
}

void AppendMember(std::string_view name, const v1::Value& value, std::string* out) {
  out->push_back(',');
  AppendColumnName(name, out);
  out->push_back(':');
  AppendJsonValue(value, out);
}

void AppendBefore(const ChangeView& change, std::string* out) {
  std::string members;
  const auto& columns = change.schema().columns();
  for (int i = 0; i < columns.size() && i < change.before().size(); ++i) {
    if (!IsAbsent(change.before()[i]))
      AppendMember(columns[i].name(), change.before()[i], &members);
  }
  if (members.empty()) return;
  out->append(",\"__before\":{");
  out->append(members, 1);
  out->push_back('}');
}

void AppendControl(unsigned char c, std::string* out) {
  switch (c) {
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    default:
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", c);
  }
}

}  // namespace

std::string_view OpText(v1::Op op) {
  switch (op) {
    case v1::OP_INSERT:
      return "insert";
    case v1::OP_UPDATE:
      return "update";
    case v1::OP_DELETE:
      return "delete";
    case v1::OP_TRUNCATE:
      return "truncate";
    case v1::OP_READ:
      return "read";
    default:
      return "unknown";
  }
}

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      AppendControl(static_cast<unsigned char>(c), out);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

void AppendJsonValue(const v1::Value& value, std::string* out) {
  switch (value.kind_case()) {
    case v1::Value::kBoolean:
      out->append(value.boolean() ? "true" : "false");
      return;
    case v1::Value::kInteger:
      out->append(fmt::format_int(value.integer()).c_str());
      return;
    case v1::Value::kUnsignedInteger:
      out->append(fmt::format_int(value.unsigned_integer()).c_str());
      return;
    case v1::Value::kFloat32:
      return AppendFloat(value.float32(), out);
    case v1::Value::kFloat64:
      return AppendFloat(value.float64(), out);
    case v1::Value::kDecimal:
      return AppendJsonString(value.decimal(), out);
    case v1::Value::kText:
      return AppendJsonString(value.text(), out);
    case v1::Value::kBinary:
      return AppendBase64(value.binary(), out);
    case v1::Value::kJson:
      return AppendJsonString(value.json(), out);
    case v1::Value::kTemporal:
      return AppendJsonString(value.temporal(), out);
    case v1::Value::kList:
      return AppendList(value.list(), out);
    case v1::Value::kComposite:
      return AppendArray(value.composite().fields(), AppendJsonValue, out);
    case v1::Value::kNull:
    case v1::Value::kInParts:
    case v1::Value::KIND_NOT_SET:
      out->append("null");
  }
}

std::string JsonLine(const ChangeView& change, std::string_view cursor) {
  std::string line = fmt::format(R"({{"__op":"{}","__pos":"{}","__seq":{},"__table":)",
                                 OpText(change.op()), change.position(), change.sequence());
  AppendJsonString(change.table(), &line);
  if (change.key_change()) line.append(",\"__key_change\":true");
  const auto& columns = change.schema().columns();
  if (change.op() != v1::OP_TRUNCATE) {
    for (int i = 0; i < columns.size(); ++i) {
      const v1::Value* const value = change.Column(i);
      if (value != nullptr) AppendMember(columns[i].name(), *value, &line);
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
