#include "server/source_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_replace.h"
#include "proto/reason.h"
#include "server/recovery.h"

namespace tidemark {
namespace {

using capture::Finding;

const char* SeverityName(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::kOk:
      return "ok";
    case Finding::Severity::kWarning:
      return "warning";
    case Finding::Severity::kError:
      return "error";
  }
  return "";
}

bool IsError(const Finding& finding) { return finding.severity == Finding::Severity::kError; }

// Both kinds of login have these fields.
template <class Login>
std::string DatabaseText(const Login& login) {
  return fmt::format("database {} on {}:{}", login.database(), login.host(), login.port());
}

// What is asked, and where.
std::string SourceText(const v1::FeedConfig& feed) {
  if (feed.has_changelog()) {
    return fmt::format("changelog {}, {}", feed.changelog().table(),
                       DatabaseText(feed.changelog().postgres()));
  }
  if (!feed.has_poll()) return "postgres, " + DatabaseText(feed.postgres());
  const std::string polled = "poll, " + DatabaseText(feed.poll().postgres());
  if (!feed.has_postgres()) return polled;
  return fmt::format("{}; to be moved to postgres, {}", polled, DatabaseText(feed.postgres()));
}

// Long remedies keep to their column.
std::string Indented(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\n", "\n             "}});
}

}  // namespace

std::string FindingsText(const v1::FeedConfig& feed, const std::vector<Finding>& findings) {
  std::string text = fmt::format("feed {}: {}\n", feed.name(), SourceText(feed));
  for (const Finding& finding : findings) {
    text += fmt::format("  {:<8} {}{}{}\n", SeverityName(finding.severity), finding.reason,
                        finding.reason.empty() ? "" : ": ", Indented(finding.message));
    if (!finding.remedy.empty()) text += fmt::format("    mend:    {}\n", Indented(finding.remedy));
    if (finding.reason == reason::kSlotLost) {
      const bool heals =
          AnswerTo(finding.reason, RecoveryPolicyOf(feed.recovery())) == BreakAnswer::kHeal;
      text +=
          fmt::format("    then:    {}\n",
                      heals ? "the server goes on by itself, as recovery says: " + feed.recovery()
                            : BreakRemedy(finding.reason, feed.name(), "postgres"));
    }
  }
  return text;
}

bool CheckSources(const v1::Config& config) {
  bool healthy = true;
  for (const v1::FeedConfig& feed : config.feeds()) {
    const auto findings = capture::CheckSource(feed);
    std::fputs(FindingsText(feed, findings).c_str(), stdout);
    healthy = healthy && std::none_of(findings.begin(), findings.end(), IsError);
  }
  std::puts(healthy ? "every source is ready" : "not every source is ready: see the errors above");
  return healthy;
}

}  // namespace tidemark
