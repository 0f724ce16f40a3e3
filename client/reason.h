// Reasons of errors that arise in the client itself; those of the server are in proto/README.md and
// arrive unchanged. Either is read with ReasonOf (proto/reason.h). Pure.
#pragma once

#include <string_view>

namespace tidemark::client::reason {

// No answer from the server: nobody listens, the connection broke, a call took too long.
inline constexpr std::string_view kServerUnreachable = "SERVER_UNREACHABLE";
// Nothing arrived for Opened.longest_silence.
inline constexpr std::string_view kServerSilent = "SERVER_SILENT";
// What the server sent breaks a guarantee of proto/README.md. Nothing of it was handed on.
inline constexpr std::string_view kContractBroken = "CONTRACT_BROKEN";
// A value in parts is larger than this client takes.
inline constexpr std::string_view kValueTooLarge = "VALUE_TOO_LARGE";
// The file holds something that is no cursor. Never taken for "no cursor yet".
inline constexpr std::string_view kCursorFileDamaged = "CURSOR_FILE_DAMAGED";
inline constexpr std::string_view kCursorFileIo = "CURSOR_FILE_IO";
// A file that the command line names cannot be read, or standard output cannot be written.
inline constexpr std::string_view kFileIo = "FILE_IO";
// An export would replace a file, or mix with another export.
inline constexpr std::string_view kFileExists = "FILE_EXISTS";
// The format cannot hold what the feed has: CSV has the columns of one table as it was.
inline constexpr std::string_view kFormatUnsuitable = "FORMAT_UNSUITABLE";

}  // namespace tidemark::client::reason
