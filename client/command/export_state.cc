#include "client/command/export_state.h"

#include <fmt/format.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <fstream>
#include <iterator>

#include "client/reason.h"
#include "proto/reason.h"
#include "proto/value_json.h"

namespace tidemark::command {
namespace {

constexpr std::string_view kVersion = "1";

// One member per line. Numbers are text: a reader of JSON may take numbers for doubles.
class JsonText {
 public:
  void Add(std::string_view name, std::string_view value) {
    Name(name);
    AppendJsonString(value, &text_);
  }
  void Add(std::string_view name, uint64_t value) { Add(name, std::to_string(value)); }
  void Add(std::string_view name, const std::vector<std::string>& values) {
    Name(name);
    text_ += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text_ += ", ";
      AppendJsonString(values[i], &text_);
    }
    text_ += ']';
  }
  void Add(std::string_view name, const std::map<std::string, uint64_t>& counts) {
    Name(name);
    text_ += '{';
    for (const auto& [key, count] : counts) {
      if (text_.back() != '{') text_ += ", ";
      AppendJsonString(key, &text_);
      text_ += fmt::format(": \"{}\"", count);
    }
    text_ += '}';
  }
  std::string Take() && { return text_ + "\n}\n"; }

 private:
  void Name(std::string_view name) {
    text_ += text_ == "{" ? "\n  " : ",\n  ";
    AppendJsonString(name, &text_);
    text_ += ": ";
  }
  std::string text_ = "{";
};

void AddRequest(const ExportRequest& request, JsonText* json) {
  json->Add("feed", request.feed);
  json->Add("from", request.from);
  json->Add("until", request.until);
  json->Add("format", request.format);
  json->Add("tables", request.tables);
  json->Add("ops", request.ops);
}

void AddCounts(const ExportState& state, JsonText* json) {
  json->Add("bytes", state.bytes);
  json->Add("rows", state.rows);
  json->Add("transactions", state.transactions);
  json->Add("changes", state.changes);
  json->Add("lines_by_table", state.lines_by_table);
  json->Add("first_position", state.first_position);
  json->Add("last_position", state.last_position);
  json->Add("gaps", state.gaps);
}

absl::Status Damaged(const std::string& what) {
  return ErrorWithReason(
      absl::StatusCode::kDataLoss, client::reason::kFileIo,
      fmt::format("the state of the export cannot be read ({}): remove it and the unfinished file "
                  "beside it, and the export begins anew",
                  what));
}

// Reads members by name; the first that is not as it was written is remembered.
class JsonMembers {
 public:
  explicit JsonMembers(const google::protobuf::Struct& members) : members_(members) {}

  std::string Text(const std::string& name) {
    const google::protobuf::Value* value = Find(name);
    if (value == nullptr || value->kind_case() != google::protobuf::Value::kStringValue) {
      return Fail(name);
    }
    return value->string_value();
  }
  uint64_t Number(const std::string& name) { return Number(name, Text(name)); }
  std::vector<std::string> List(const std::string& name) {
    std::vector<std::string> list;
    const google::protobuf::Value* value = Find(name);
    if (value == nullptr || !value->has_list_value()) Fail(name);
    if (value == nullptr) return list;
    for (const auto& item : value->list_value().values()) list.push_back(item.string_value());
    return list;
  }
  std::map<std::string, uint64_t> Counts(const std::string& name) {
    std::map<std::string, uint64_t> counts;
    const google::protobuf::Value* value = Find(name);
    if (value == nullptr || !value->has_struct_value()) Fail(name);
    if (value == nullptr) return counts;
    for (const auto& [key, count] : value->struct_value().fields()) {
      counts[key] = Number(name, count.string_value());
    }
    return counts;
  }
  const std::string& failed() const { return failed_; }

 private:
  const google::protobuf::Value* Find(const std::string& name) const {
    const auto found = members_.fields().find(name);
    return found == members_.fields().end() ? nullptr : &found->second;
  }
  uint64_t Number(const std::string& name, const std::string& text) {
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end) Fail(name);
    return number;
  }
  std::string Fail(const std::string& name) {
    if (failed_.empty()) failed_ = name;
    return "";
  }

  const google::protobuf::Struct& members_;
  std::string failed_;
};

}  // namespace

std::string ExportStateText(const ExportState& state) {
  JsonText json;
  json.Add("version", kVersion);
  AddRequest(state.request, &json);
  json.Add("bound", state.bound);
  json.Add("cursor", state.cursor);
  AddCounts(state, &json);
  json.Add("header", state.header);
  json.Add("finished", state.finished ? "yes" : "no");
  return std::move(json).Take();
}

absl::StatusOr<ExportState> ParseExportState(const std::string& text) {
  google::protobuf::Struct members;
  if (!google::protobuf::util::JsonStringToMessage(text, &members).ok()) return Damaged("no JSON");
  JsonMembers json(members);
  if (json.Text("version") != kVersion) return Damaged("of another version");
  ExportState state;
  state.request = {json.Text("feed"),   json.Text("from"),   json.Text("until"),
                   json.Text("format"), json.List("tables"), json.List("ops")};
  state.bound = json.Text("bound");
  state.cursor = json.Text("cursor");
  state.bytes = json.Number("bytes");
  state.rows = json.Number("rows");
  state.transactions = json.Number("transactions");
  state.changes = json.Number("changes");
  state.lines_by_table = json.Counts("lines_by_table");
  state.first_position = json.Text("first_position");
  state.last_position = json.Text("last_position");
  state.gaps = json.List("gaps");
  state.header = json.Text("header");
  state.finished = json.Text("finished") == "yes";
  if (!json.failed().empty()) return Damaged("member " + json.failed());
  return state;
}

absl::StatusOr<std::optional<ExportState>> LoadExportState(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Damaged(path.string());
  auto state = ParseExportState(text);
  if (!state.ok()) return state.status();
  return std::optional(*std::move(state));
}

std::string ExportManifestText(const ExportState& state, const std::string& file,
                               const std::string& sha256) {
  JsonText json;
  json.Add("file", file);
  json.Add("sha256", sha256);
  AddRequest(state.request, &json);
  json.Add("bound", state.bound);
  AddCounts(state, &json);
  json.Add("last_cursor", state.cursor);
  return std::move(json).Take();
}

}  // namespace tidemark::command
