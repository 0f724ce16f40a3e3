// Prints a store as it lies on the disk, as text or as JSON with one object a line, without writing
// to it. A server may run on it meanwhile.
//
// JSON: a change is {"__op","__pos","__seq","__table", then a member per column}, a current row the
// same without __op; every other line has "__record": feed, schema, schema_since, transaction, gap
// or defect (an entry that cannot be read). Values: proto/value_json.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "proto/position.h"
#include "proto/table_name.h"
#include "store/store.h"

namespace tidemark::store {

struct DumpOptions {
  StoreOptions store;
  bool json = false;
  // Empty: all feeds.
  std::optional<std::string> feed;
  // Of the log: transactions behind `after`, up to and with `until`.
  std::optional<Position> after;
  std::optional<Position> until;
  // Of the log and the rows: only these tables, and only transactions that touch one.
  std::optional<TablePattern> tables;
  // Of the log: transactions without their changes.
  bool transactions_only = false;
};

// Gets each line without its end.
using PrintLine = std::function<void(std::string_view line)>;

// Who the feeds are, their boundaries, their checkpoints.
absl::Status DumpFeeds(const DumpOptions& options, const PrintLine& print);
// Every schema, then from where each holds.
absl::Status DumpSchemas(const DumpOptions& options, const PrintLine& print);
// Each feed as above, then its transactions and changes in order. What cannot be read is printed as
// a defect and passed over.
absl::Status DumpLog(const DumpOptions& options, const PrintLine& print);
// Current rows in order of table and key.
absl::Status DumpRows(const DumpOptions& options, const PrintLine& print);

}  // namespace tidemark::store
