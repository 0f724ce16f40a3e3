#include "client/command/verify_print.h"

#include <fmt/format.h>

#include <string_view>

#include "client/command/exit_code.h"
#include "client/command/text_table.h"
#include "proto/value_json.h"

namespace tidemark::command {
namespace {

using Names = google::protobuf::RepeatedPtrField<std::string>;

std::string KindText(v1::DifferenceKind kind) {
  return EnumText(v1::DifferenceKind_Name(kind), "DIFFERENCE_KIND_");
}

std::string List(const Names& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

std::string TotalsText(const v1::VerifyTotals& totals) {
  std::string found;
  const auto add = [&found](uint64_t count, std::string_view what) {
    if (count > 0) found += fmt::format("{}{} {}", found.empty() ? "" : ", ", count, what);
  };
  add(totals.missing(), "missing");
  add(totals.extra(), "extra");
  add(totals.different(), "different");
  add(totals.incomplete(), "incomplete");
  add(totals.not_comparable(), "could not be compared");
  return fmt::format("{} rows compared, {}", totals.rows_compared(),
                     found.empty() ? "no difference" : found);
}

void AddText(std::string_view name, std::string_view text, std::string* json) {
  *json += fmt::format(",\"{}\":", name);
  AppendJsonString(text, json);
}

void AddNames(std::string_view name, const Names& names, std::string* json) {
  if (names.empty()) return;
  *json += fmt::format(",\"{}\":[", name);
  for (const std::string& one : names) {
    if (json->back() != '[') json->push_back(',');
    AppendJsonString(one, json);
  }
  json->push_back(']');
}

std::string TotalsJson(const v1::VerifyTotals& totals) {
  std::string json =
      fmt::format(R"({{"rows_compared":{},"missing":{},"extra":{},"different":{},"incomplete":{},)"
                  R"("not_comparable":{})",
                  totals.rows_compared(), totals.missing(), totals.extra(), totals.different(),
                  totals.incomplete(), totals.not_comparable());
  AddText("first_position", totals.first_position(), &json);
  AddText("last_position", totals.last_position(), &json);
  return json + "}";
}

}  // namespace

std::string VerifyText(const v1::VerifyResponse& record) {
  std::string line = record.table() + ": ";
  if (!record.waits_for().empty()) return line + record.waits_for();
  if (!record.last()) {
    line += fmt::format("{} {}", KindText(record.kind()), record.key());
    if (!record.columns().empty()) line += " in " + List(record.columns());
    if (!record.absent_columns().empty()) line += ", not known: " + List(record.absent_columns());
    return line;
  }
  line += TotalsText(record.totals());
  if (!record.has_error()) return line;
  return line + fmt::format("; NOT COMPARED {}: {}: {}",
                            record.rows_compared() > 0 ? "to the end" : "at all",
                            record.error().reason(), record.error().message());
}

std::string VerifyJson(const v1::VerifyResponse& record) {
  std::string json = "{\"table\":";
  AppendJsonString(record.table(), &json);
  if (!record.waits_for().empty()) AddText("waits_for", record.waits_for(), &json);
  if (record.kind() != v1::DIFFERENCE_KIND_UNSPECIFIED) {
    AddText("kind", KindText(record.kind()), &json);
    // It is JSON already.
    json += ",\"key\":" + record.key();
    AddNames("columns", record.columns(), &json);
    AddNames("absent_columns", record.absent_columns(), &json);
    AddText("position", record.position(), &json);
  }
  if (record.last()) json += ",\"totals\":" + TotalsJson(record.totals());
  if (record.has_error()) {
    AddText("reason", record.error().reason(), &json);
    AddText("message", record.error().message(), &json);
  }
  return json + "}";
}

void VerifyVerdict::Take(const v1::VerifyResponse& record) {
  if (record.kind() != v1::DIFFERENCE_KIND_UNSPECIFIED) differs_ = true;
  if (record.has_error() || record.totals().not_comparable() > 0) undecided_ = true;
}

int VerifyVerdict::exit_code() const {
  if (differs_) return kDifferent;
  return undecided_ ? kUndecided : kDone;
}

}  // namespace tidemark::command
