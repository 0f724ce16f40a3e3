// The stable reasons of every error that a user can meet. An error travels between folders as an
// absl::Status with the reason and its details as payload, and reaches a client as
// google.rpc.ErrorInfo. The list with the client's next step is in proto/README.md. Pure; safe from
// any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tidemark {

using ErrorDetails = std::map<std::string, std::string>;

// A status with a reason from the list below. `message` says what was found, where, and what to do
// next.
absl::Status ErrorWithReason(absl::StatusCode code, std::string_view reason,
                             std::string_view message, const ErrorDetails& details = {});

// The reason of a status; empty when it has none.
std::string ReasonOf(const absl::Status& status);
ErrorDetails DetailsOf(const absl::Status& status);

namespace reason {
// Requests.
inline constexpr std::string_view kFeedUnknown = "FEED_UNKNOWN";                // NOT_FOUND
inline constexpr std::string_view kFeatureUnsupported = "FEATURE_UNSUPPORTED";  // UNIMPLEMENTED
inline constexpr std::string_view kRequestInvalid = "REQUEST_INVALID";          // INVALID_ARGUMENT
inline constexpr std::string_view kTableUnknown = "TABLE_UNKNOWN";              // INVALID_ARGUMENT
inline constexpr std::string_view kBoundBeforeStart = "BOUND_BEFORE_START";     // OUT_OF_RANGE
inline constexpr std::string_view kBoundBeforeSnapshot = "BOUND_BEFORE_SNAPSHOT";  // OUT_OF_RANGE
inline constexpr std::string_view kSnapshotUnavailable =
    "SNAPSHOT_UNAVAILABLE";  // FAILED_PRECONDITION
inline constexpr std::string_view kBoundUnreachable =
    "BOUND_UNREACHABLE";  // DATA_LOSS: in a generation that ended before it
inline constexpr std::string_view kRecoveryRefused =
    "RECOVERY_REFUSED";  // FAILED_PRECONDITION: the feed has no break to recover from
inline constexpr std::string_view kDropRefused =
    "DROP_REFUSED";  // FAILED_PRECONDITION: something would be left at a source that cannot be
                     // asked
inline constexpr std::string_view kFeedNotReady =
    "FEED_NOT_READY";  // UNAVAILABLE: initial snapshot not whole yet
inline constexpr std::string_view kVerificationRunning =
    "VERIFICATION_RUNNING";  // RESOURCE_EXHAUSTED: one for each feed at a time
// Cursors, in the order in which they are checked.
inline constexpr std::string_view kCursorMalformed = "CURSOR_MALFORMED";  // INVALID_ARGUMENT
inline constexpr std::string_view kCursorVersion =
    "CURSOR_VERSION_UNSUPPORTED";  // INVALID_ARGUMENT
inline constexpr std::string_view kCursorOtherFeed =
    "CURSOR_OTHER_FEED";  // INVALID_ARGUMENT: other feed or older life
inline constexpr std::string_view kCursorForged =
    "CURSOR_FORGED";  // INVALID_ARGUMENT: MAC or key id
inline constexpr std::string_view kCursorExpired = "CURSOR_EXPIRED";    // OUT_OF_RANGE
inline constexpr std::string_view kCursorAhead = "CURSOR_AHEAD";        // UNAVAILABLE
inline constexpr std::string_view kCursorDiverged = "CURSOR_DIVERGED";  // FAILED_PRECONDITION
// Ends of streams (Closing.reason) that are not errors of the request.
inline constexpr std::string_view kFinished = "FINISHED";               // OK: the bound was reached
inline constexpr std::string_view kServerDraining = "SERVER_DRAINING";  // UNAVAILABLE
inline constexpr std::string_view kStreamEnded = "STREAM_ENDED";        // ABORTED
inline constexpr std::string_view kFeedDropped = "FEED_DROPPED";        // NOT_FOUND
inline constexpr std::string_view kStreamsExhausted = "STREAMS_EXHAUSTED";  // RESOURCE_EXHAUSTED
inline constexpr std::string_view kClientStalled = "CLIENT_STALLED";        // DEADLINE_EXCEEDED
inline constexpr std::string_view kFeedRestarted =
    "FEED_RESTARTED";  // ABORTED: bootstrap must begin again; no server sends it yet
// Store.
inline constexpr std::string_view kStoreFormatNewer = "STORE_FORMAT_NEWER";
inline constexpr std::string_view kStoreDamaged = "STORE_DAMAGED";
inline constexpr std::string_view kStoreLocked = "STORE_LOCKED";
inline constexpr std::string_view kStoreFull = "STORE_FULL";
inline constexpr std::string_view kStoreIo = "STORE_IO";
inline constexpr std::string_view kFoldBehind =
    "FOLD_BEHIND";  // (R) UNAVAILABLE: the log's tail that is not yet folded is at its bound
inline constexpr std::string_view kIdentityUnusable =
    "IDENTITY_UNUSABLE";  // FAILED_PRECONDITION: no row can be keyed by it
// Of one table; the others of the feed go on.
inline constexpr std::string_view kIdentityChanged =
    "IDENTITY_CHANGED";  // its rows are keyed by what no longer is its identity
inline constexpr std::string_view kRowsNotKept =
    "ROWS_NOT_KEPT";  // nothing is there that it could be compared with
inline constexpr std::string_view kTableBusy =
    "TABLE_BUSY";  // it changes so much that it cannot be compared, or read whole
inline constexpr std::string_view kChangesMissing =
    "CHANGES_MISSING";  // its rows may have missed changes: the feed went on behind a gap
// Configuration.
inline constexpr std::string_view kConfigInvalid = "CONFIG_INVALID";
inline constexpr std::string_view kListenFailed = "LISTEN_FAILED";
// Sources. (R) is retried with backoff; the others need a person.
inline constexpr std::string_view kSourceUnreachable = "SOURCE_UNREACHABLE";  // (R)
inline constexpr std::string_view kSourceSilent = "SOURCE_SILENT";  // (R) no sign of life in time
inline constexpr std::string_view kSourceAuthentication =
    "SOURCE_AUTHENTICATION";  // (R) password may be rotated
inline constexpr std::string_view kSourcePrivilege = "SOURCE_PRIVILEGE";
inline constexpr std::string_view kSourceSetting = "SOURCE_SETTING";  // wal_level and the like
inline constexpr std::string_view kSourceVersion = "SOURCE_VERSION_UNSUPPORTED";
inline constexpr std::string_view kSourceTableMissing = "SOURCE_TABLE_MISSING";
inline constexpr std::string_view kSlotMissing = "SLOT_MISSING";
inline constexpr std::string_view kSlotLost = "SLOT_LOST";
inline constexpr std::string_view kSlotActive = "SLOT_ACTIVE";    // (R) in use by another process
inline constexpr std::string_view kSlotForeign = "SLOT_FOREIGN";  // other plugin or database
inline constexpr std::string_view kSlotsExhausted = "SLOTS_EXHAUSTED";
inline constexpr std::string_view kSlotAdvanced =
    "SLOT_ADVANCED";  // confirmed_flush beyond the checkpoint
inline constexpr std::string_view kSourceRewound =
    "SOURCE_REWOUND";  // checkpoint beyond the server's flush position
inline constexpr std::string_view kSourceReplaced =
    "SOURCE_REPLACED";  // other system identifier, database
inline constexpr std::string_view kSourceTimeline = "SOURCE_TIMELINE_CHANGED";
inline constexpr std::string_view kPublicationMissing = "PUBLICATION_MISSING";
inline constexpr std::string_view kTableUnreadable =
    "TABLE_UNREADABLE";  // of one table: it has no key
// Of polled tables and changelogs.
inline constexpr std::string_view kCursorColumnUnusable =
    "CURSOR_COLUMN_UNUSABLE";  // missing, of a type without order, nullable, …
inline constexpr std::string_view kCursorNull =
    "CURSOR_NULL";  // of one table: rows without a cursor, and null_cursor is fail
inline constexpr std::string_view kCursorIndexMissing =
    "CURSOR_INDEX_MISSING";  // each poll would read the whole table
inline constexpr std::string_view kChangelogUnusable =
    "CHANGELOG_UNUSABLE";  // its columns, its sequence or its index are not as they must be
inline constexpr std::string_view kMigrationRefused =
    "MIGRATION_REFUSED";  // FAILED_PRECONDITION: not polled, not configured, or switched already
inline constexpr std::string_view kSourceProtocol = "SOURCE_PROTOCOL";  // bytes that make no sense
}  // namespace reason

}  // namespace tidemark
