// What a program does with a feed. It overrides what it needs; the rest goes by.
//
// The calls come from the thread that runs FeedClient::Run, one at a time, in the order of the
// feed, and survive reconnects: a change is handed over once, however often the connection breaks.
//
//   rows of a bootstrap:   OnRow* OnRowsEnd           (OnRowsAgain: forget what came so far)
//   every transaction:     OnTransactionBegin OnChange* OnTransactionEnd
//
// Of a table whose current rows are not kept, a bootstrap sends the transactions of the log
// instead: they come before OnRowsEnd, and without a cursor.
//
// A transaction counts when OnTransactionEnd came. When Run returns before that, what was handed
// over of it did not happen: it comes again, whole, from the last cursor.
//
// Cursors come with OnRowsEnd, OnTransactionEnd and OnProgress. One that is stored together with
// the effects makes the feed exactly once across restarts. An error that a call returns ends Run
// with that error; nothing is handed over after it.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/change_view.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::client {

class FeedHandler {
 public:
  virtual ~FeedHandler() = default;

  // A stream begins. Comes again after every reconnect.
  virtual absl::Status OnOpened(const v1::Opened& /*opened*/) { return absl::OkStatus(); }
  // A table that is about to be used. Comes again after a reconnect.
  virtual absl::Status OnSchema(const v1::TableSchema& /*schema*/) { return absl::OkStatus(); }

  // A current row, with start = snapshot. Its op is OP_READ.
  virtual absl::Status OnRow(const ChangeView& /*row*/) { return absl::OkStatus(); }
  // The rows are complete: the log follows.
  virtual absl::Status OnRowsEnd(std::string_view /*cursor*/) { return absl::OkStatus(); }
  // The bootstrap broke and starts anew at a later boundary. Rows that are gone by then are not
  // reported: forget every row and transaction handed over so far.
  virtual absl::Status OnRowsAgain() { return absl::OkStatus(); }

  // Position, commit time, origin and the source's transaction id are set; the changes come as
  // calls of OnChange.
  virtual absl::Status OnTransactionBegin(const v1::Transaction& /*first_part*/) {
    return absl::OkStatus();
  }
  virtual absl::Status OnChange(const ChangeView& /*change*/) { return absl::OkStatus(); }
  // cursor (but in a bootstrap), changes_total and changes_delivered are set as well.
  virtual absl::Status OnTransactionEnd(const v1::Transaction& /*last_part*/) {
    return absl::OkStatus();
  }

  // Everything up to its cursor was handed over or filtered out. Its cursor is empty in a
  // bootstrap.
  virtual absl::Status OnProgress(const v1::Progress& /*progress*/) { return absl::OkStatus(); }
  // The bound of the read, once it is known. Not handed over again after a reconnect that keeps it;
  // a bootstrap that starts anew looks "now" up anew.
  virtual absl::Status OnBound(const v1::Bound& /*bound*/) { return absl::OkStatus(); }
  // Changes may be missing here. Its to_cursor resumes behind it; empty in a bootstrap.
  virtual absl::Status OnGap(const v1::Gap& /*gap*/) { return absl::OkStatus(); }
  // What comes from here on has another schema; may come between two changes of a transaction.
  virtual absl::Status OnSchemaChange(const v1::SchemaChange& /*change*/) {
    return absl::OkStatus();
  }
  // The server ends the stream; whether Run goes on depends on the reason.
  virtual absl::Status OnClosing(const v1::Closing& /*closing*/) { return absl::OkStatus(); }

  // Everything of one message was handed over: a good moment to flush, to sync, to store a cursor.
  virtual absl::Status OnMessageEnd() { return absl::OkStatus(); }

  // The stream broke with `why`; the next attempt comes after `wait`.
  virtual void OnDisconnected(const absl::Status& /*why*/, absl::Duration /*wait*/) {}
};

}  // namespace tidemark::client
