// Who can say what was committed behind a server under test. With a witness, a LiveSubscriber runs
// CheckComplete by itself over every stream that it records from that server: no test can forget
// it.
//
// Thread rule: one thread at a time.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/testing/recorded_stream.h"
#include "tests/testing/sql_oracle.h"

namespace tidemark::testing {

struct Testimony {
  // Of the feed's first generation, in commit order.
  std::vector<OracleTransaction> transactions;
  // schema.table: every change of these is among them.
  std::set<std::string> tables;
};

// An error: nothing can be said, e.g. since the source is gone.
using Witness = std::function<absl::StatusOr<Testimony>()>;

// Of the feed that the server at this address serves; nothing: nobody is asked any more.
void CallWitness(const std::string& server, const std::string& feed, Witness witness);
Witness WitnessOf(const std::string& server, const std::string& feed);

// Complete, by this testimony, over a stream whose log begins behind the boundary `after` and which
// came up to the boundary `upto`, as texts of positions. Not looked at: a table that the server
// read anew (a made transaction touches it), and what stands behind a break; other checks know
// better what must be there.
absl::Status CheckWitnessed(const RecordedStream& stream, Testimony testimony,
                            const std::string& after, const std::string& upto);

}  // namespace tidemark::testing
