// How the program ends. Part of its interface: scripts go by it; --help lists it.
#pragma once

namespace tidemark::command {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,       // the server or this side says why on standard error
  kUsage = 2,        // the command line makes no sense
  kUnreachable = 3,  // no answer from the server
  kCursor = 4,       // the cursor does not resume: malformed, of another feed, expired, diverged
  kCursorFile = 5,   // the cursor file cannot be read or written
  kDifferent = 6,    // verify: rows of the feed differ from the source
  kUndecided = 7,    // verify: no difference was found, but not everything could be compared
};

inline constexpr char kExitCodesHelp[] =
    "Exit codes: 0 done (also after SIGINT, SIGTERM or a closed pipe), 1 failed, 2 wrong usage,\n"
    "3 server not reached, 4 the cursor does not resume, 5 cursor file unusable;\n"
    "of verify: 6 rows differ, 7 not everything could be compared.\n"
    "Errors go to standard error with a stable reason, what was found, where, and what to do next.";

}  // namespace tidemark::command
