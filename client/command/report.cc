#include "client/command/report.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "client/command/exit_code.h"
#include "client/reason.h"
#include "proto/reason.h"

namespace tidemark::command {
namespace {

struct Advice {
  int exit_code;
  std::string_view next_step;
};

const Advice* AdviceFor(const std::string& reason) {
  namespace server = tidemark::reason;
  namespace own = tidemark::client::reason;
  static const std::map<std::string_view, Advice> advice = {
      {own::kServerUnreachable,
       {kUnreachable,
        "start tidemarkd, or name it with --server HOST:PORT or TIDEMARK_SERVER; a server with a "
        "certificate takes only --tls or --tls-ca FILE"}},
      {own::kServerSilent, {kUnreachable, "check the network between here and the server"}},
      {own::kCursorFileDamaged, {kCursorFile, {}}},
      {own::kCursorFileIo, {kCursorFile, {}}},
      {server::kFeedUnknown, {kFailed, "list the feeds with: tidemark status"}},
      {server::kTableUnknown, {kFailed, "list the tables with: tidemark describe FEED"}},
      {server::kVerificationRunning, {kFailed, "wait until it has ended"}},
      {server::kFeedNotReady,
       {kFailed, "wait until the initial snapshot is whole; tidemark status shows how far it is"}},
      {server::kBoundUnreachable,
       {kFailed, "read on from the cursor, up to another bound: tidemark status says what broke"}},
      {server::kRecoveryRefused, {kFailed, "look at the feed with: tidemark status"}},
      {server::kMigrationRefused, {kFailed, "look at the feed with: tidemark status"}},
      {server::kSnapshotUnavailable, {kFailed, "start with --from earliest or --from latest"}},
      {server::kCursorMalformed, {kCursor, "pass a cursor exactly as a server gave it"}},
      {server::kCursorVersion, {kCursor, "use a server that is not older than the cursor's"}},
      {server::kCursorOtherFeed,
       {kCursor, "use the cursor's own feed, or start this one with --from snapshot"}},
      {server::kCursorForged,
       {kCursor,
        "pass a cursor exactly as a server gave it; servers that answer for one another "
        "share cursor_keys_file"}},
      {server::kCursorExpired,
       {kCursor, "changes behind this cursor are gone: start with --from snapshot"}},
      {server::kCursorDiverged,
       {kCursor, "the source went back behind this cursor: start with --from snapshot"}},
      {server::kCursorAhead, {kCursor, "the server is still catching up; try again later"}},
  };
  const auto found = advice.find(reason);
  return found == advice.end() ? nullptr : &found->second;
}

std::string NameOf(const absl::Status& error) {
  const std::string reason = ReasonOf(error);
  return reason.empty() ? absl::StatusCodeToString(error.code()) : reason;
}

}  // namespace

int Report(const absl::Status& error, std::string_view where) {
  fmt::print(stderr, "tidemark: {}: {}\n", NameOf(error), std::string(error.message()));
  fmt::print(stderr, "  where: {}\n", where);
  for (const auto& [key, value] : DetailsOf(error)) fmt::print(stderr, "  {}: {}\n", key, value);
  const Advice* const advice = AdviceFor(ReasonOf(error));
  if (advice == nullptr) return kFailed;
  if (!advice->next_step.empty()) fmt::print(stderr, "  next: {}\n", advice->next_step);
  return advice->exit_code;
}

void ReportRetry(const absl::Status& error, std::string_view where, std::string_view wait) {
  fmt::print(stderr, "tidemark: {}: {} ({}); trying again in {}\n", NameOf(error),
             std::string(error.message()), where, wait);
}

}  // namespace tidemark::command
