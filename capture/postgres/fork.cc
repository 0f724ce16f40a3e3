#include "capture/postgres/fork.h"

#include <algorithm>
#include <cctype>

namespace tidemark::capture::postgres {
namespace {

constexpr size_t kNameBytesMax = 120;

struct Fork {
  std::string_view function;
  std::string_view name;
};

// The version text of these may look like PostgreSQL's own.
constexpr Fork kForks[] = {
    {"aurora_version", "Amazon Aurora"},   {"yb_servers", "YugabyteDB"},
    {"opengauss_version", "openGauss"},    {"polar_version", "PolarDB"},
    {"gp_execution_segment", "Greenplum"}, {"pgxc_node_str", "Postgres-XL"},
};

// In version texts, in lower case. Packagers put their name into parentheses too, so an unknown
// word there says nothing.
constexpr std::string_view kForkWords[] = {
    "yugabyte",  "opengauss",   "gaussdb",    "greenplum", "cloudberry",   "redshift",   "aurora",
    "cockroach", "polardb",     "alloydb",    "kingbase",  "highgo",       "vastbase",   "tbase",
    "ivorysql",  "materialize", "risingwave", "orioledb",  "enterprisedb", "postgres-xl"};

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// 15.20, 17beta1, 18devel: how PostgreSQL counts.
bool IsPostgresVersion(std::string_view word) {
  const auto digits = [&word] {
    size_t count = 0;
    while (!word.empty() && IsDigit(word.front())) {
      word.remove_prefix(1);
      ++count;
    }
    return count > 0;
  };
  if (!digits()) return false;
  if (word.empty() || word == "devel") return true;
  if (word.front() == '.') {
    word.remove_prefix(1);
    return digits() && word.empty();
  }
  for (const std::string_view stage : {"alpha", "beta", "rc"}) {
    if (word.substr(0, stage.size()) != stage) continue;
    word.remove_prefix(stage.size());
    return digits() && word.empty();
  }
  return false;
}

}  // namespace

std::string ForkFunctionsSql() {
  std::string list;
  for (const Fork& fork : kForks) {
    if (!list.empty()) list += ", ";
    list += "'" + std::string(fork.function) + "'";
  }
  return list;
}

std::string ForkOf(std::string_view version_text, std::string_view functions) {
  const std::string named(version_text.substr(0, kNameBytesMax));
  const std::string lower = Lower(version_text);
  for (const std::string_view word : kForkWords) {
    if (lower.find(word) != std::string::npos) return named;
  }
  constexpr std::string_view kPrefix = "PostgreSQL ";
  if (version_text.substr(0, kPrefix.size()) != kPrefix) {
    return named.empty() ? "a server without a version" : named;
  }
  const std::string_view rest = version_text.substr(kPrefix.size());
  if (!IsPostgresVersion(rest.substr(0, rest.find_first_of(" ,")))) return named;
  const std::string padded = " " + std::string(functions) + " ";
  for (const Fork& fork : kForks) {
    if (padded.find(" " + std::string(fork.function) + " ") != std::string::npos) {
      return std::string(fork.name) + ", " + named;
    }
  }
  return "";
}

}  // namespace tidemark::capture::postgres
