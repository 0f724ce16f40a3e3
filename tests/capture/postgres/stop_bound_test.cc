// The decision table, over every bound of every generated log: what is released is what ends at or
// before the bound, and what comes after is read by whoever goes on.
#include "capture/postgres/stop_bound.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "tests/testing/sanitized.h"
#include "tests/testing/seed.h"

namespace tidemark::capture::postgres {
namespace {

using enum BoundDecision;

// A piece of the server's log. A commit record begins at `begin` and ends at `end`.
struct WalRecord {
  Lsn begin = 0;
  Lsn end = 0;
  bool commit = false;
  bool published = false;  // else the server says nothing of it (E9)
};

struct BeginSeen {
  Lsn commit = 0;
};
struct CommitSeen {
  Lsn commit = 0;
  Lsn end = 0;
};
struct KeepaliveSeen {
  Lsn end = 0;
};
using Seen = std::variant<BeginSeen, CommitSeen, KeepaliveSeen>;

// What a walsender sends of `log` from `start` on: no transaction whose commit record begins before
// `start` (E7), its own place in keepalives (K1), the confirmed position first (K3), and while a
// transaction is being sent the place before its commit record.
std::vector<Seen> Stream(const std::vector<WalRecord>& log, Lsn start, bool keepalives) {
  std::vector<Seen> stream;
  stream.emplace_back(KeepaliveSeen{start});
  for (const WalRecord& record : log) {
    if (record.commit && record.published && record.begin >= start) {
      stream.emplace_back(BeginSeen{record.begin});
      if (keepalives) stream.emplace_back(KeepaliveSeen{std::max(start, record.begin)});
      stream.emplace_back(CommitSeen{record.begin, record.end});
    }
    if (keepalives && record.end >= start) stream.emplace_back(KeepaliveSeen{record.end});
  }
  return stream;
}

struct Outcome {
  std::vector<Lsn> released;
  bool reached = false;
  Lsn resume = 0;
};

Outcome Read(const std::vector<Seen>& stream, Lsn start, Lsn bound) {
  StopBound stop(start, bound);
  Outcome outcome;
  bool held = false;
  for (const Seen& seen : stream) {
    if (stop.reached()) break;
    BoundDecision decision = kGoOn;
    if (const auto* begin = std::get_if<BeginSeen>(&seen)) {
      decision = stop.OnBegin(begin->commit);
      held = decision == kHold;
    } else if (const auto* commit = std::get_if<CommitSeen>(&seen)) {
      EXPECT_TRUE(held) << "a commit whose rows were not held";
      decision = stop.OnCommit(commit->commit, commit->end);
      if (decision == kRelease || decision == kReleaseAndStop) {
        outcome.released.push_back(commit->end);
      }
    } else {
      decision = stop.OnKeepalive(std::get<KeepaliveSeen>(seen).end);
    }
    EXPECT_EQ(stop.reached(), decision == kStop || decision == kReleaseAndStop);
  }
  outcome.reached = stop.reached();
  outcome.resume = stop.resume();
  return outcome;
}

std::vector<Lsn> Ends(const std::vector<WalRecord>& log, Lsn from, Lsn to) {
  std::vector<Lsn> ends;
  for (const WalRecord& record : log) {
    if (record.commit && record.published && record.end > from && record.end <= to) {
      ends.push_back(record.end);
    }
  }
  return ends;
}

std::string Text(const std::vector<WalRecord>& log) {
  std::string text;
  for (const WalRecord& record : log) {
    text += fmt::format("{}[{},{}) ",
                        !record.commit     ? "other"
                        : record.published ? "commit"
                                           : "unpublished",
                        record.begin, record.end);
  }
  return text;
}

// Every bound from `start` to the end of the log, with and without keepalives on the way.
void CheckEveryBound(const std::vector<WalRecord>& log) {
  constexpr Lsn kStart = 10;
  const Lsn log_end = log.back().end;
  SCOPED_TRACE(Text(log));
  for (const bool keepalives : {false, true}) {
    const std::vector<Seen> stream = Stream(log, kStart, keepalives);
    for (Lsn bound = kStart; bound <= log_end + 2; ++bound) {
      const auto place = [&] { return fmt::format("bound {} keepalives {}", bound, keepalives); };
      const Outcome outcome = Read(stream, kStart, bound);
      ASSERT_EQ(outcome.released, Ends(log, kStart, bound)) << place();
      if (!outcome.reached) continue;
      // Never early: with nothing behind the bound in sight, nothing is proved.
      ASSERT_LE(outcome.resume, bound) << place();
      ASSERT_LE(bound, log_end) << place();
      // Whoever goes on there reads all the rest, once.
      const Outcome rest = Read(Stream(log, outcome.resume, true), outcome.resume, log_end + 1);
      ASSERT_EQ(rest.released, Ends(log, bound, log_end)) << place();
    }
    if (!keepalives) continue;
    // With keepalives every bound that the log has reached ends the read.
    for (Lsn bound = kStart; bound <= log_end; ++bound) {
      ASSERT_TRUE(Read(stream, kStart, bound).reached) << bound;
    }
  }
}

// proves S42, S07, S08, S09, S10, S11, S13, S18, E4, E7, K1
TEST(StopBoundTest, EveryShortLogAndEveryBound) {
  // Each record is one of: other, unpublished commit, commit; 1 or 3 bytes long; with or without a
  // gap before it (without: adjacent, E4).
  constexpr int kKinds = 3 * 2 * 2;
  // A twelfth of the logs; what they have to show of memory and arithmetic, the short ones show.
  constexpr int kRecordsMax = testing::kSanitized ? 3 : 4;
  for (int records = 1; records <= kRecordsMax; ++records) {
    int logs = 1;
    for (int i = 0; i < records; ++i) logs *= kKinds;
    for (int number = 0; number < logs; ++number) {
      std::vector<WalRecord> log;
      Lsn at = 10;
      for (int i = 0, rest = number; i < records; ++i, rest /= kKinds) {
        const int kind = rest % kKinds;
        if (kind & 1) at += 2;
        const Lsn length = kind & 2 ? 3 : 1;
        log.push_back({at, at + length, kind / 4 > 0, kind / 4 == 2});
        at += length;
      }
      CheckEveryBound(log);
      if (HasFatalFailure()) return;
    }
  }
}

// proves S42, S57
TEST(StopBoundTest, LongRandomLogs) {
  const uint64_t seed = testing::SeedFromEnvironment();
  std::cout << "TIDEMARK_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  const int rounds = testing::kSanitized ? 20 : 200;
  for (int round = 0; round < rounds; ++round) {
    std::vector<WalRecord> log;
    Lsn at = 10;
    for (int i = 0; i < 40; ++i) {
      if (random() % 2 == 0) at += random() % 8;
      const Lsn length = 1 + random() % 12;
      log.push_back({at, at + length, random() % 3 != 0, random() % 4 != 0});
      at += length;
    }
    CheckEveryBound(log);
    if (HasFatalFailure()) return;
  }
}

// proves S43, S58, K3
TEST(StopBoundTest, TheFirstKeepaliveProvesOnlyWhatWasReadBefore) {
  StopBound ahead(100, 101);
  EXPECT_EQ(ahead.OnKeepalive(90), kGoOn) << "confirmed earlier than our start";
  EXPECT_EQ(ahead.OnKeepalive(100), kGoOn);
  EXPECT_FALSE(ahead.reached());
  EXPECT_EQ(ahead.OnKeepalive(101), kStop) << "at equality, or an idle server would never end it";
  EXPECT_EQ(ahead.resume(), 101u);

  StopBound there(100, 100);
  EXPECT_TRUE(there.reached()) << "the bound was reached before the connection was made";
  EXPECT_EQ(there.resume(), 100u);
}

// proves S44
TEST(StopBoundTest, AKeepaliveThatOvertakesATransactionInTransitNeverCutsIt) {
  // While 300,000 rows are sent, keepalives say where their commit record begins. A reader that
  // compares commit LSNs with its bound, and stops at a keepalive at the bound, loses them.
  constexpr Lsn kCommit = 500;
  constexpr Lsn kEnd = 548;
  const auto stops_by_commit_lsn = [&](Lsn keepalive, Lsn bound) { return keepalive >= bound; };
  EXPECT_TRUE(stops_by_commit_lsn(kCommit, kCommit)) << "with the transaction not yet delivered";

  for (const Lsn bound : {kCommit + 1, kEnd - 1, kEnd, kEnd + 1}) {
    StopBound stop(100, bound);
    EXPECT_EQ(stop.OnBegin(kCommit), kHold);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(stop.OnKeepalive(kCommit), kGoOn) << bound;
    // Not even one that claims more: the transaction in transit says itself where it ends.
    EXPECT_EQ(stop.OnKeepalive(kEnd + 1), kGoOn);
    const BoundDecision decision = stop.OnCommit(kCommit, kEnd);
    if (bound < kEnd) {
      EXPECT_EQ(decision, kStop) << bound;
      EXPECT_EQ(stop.resume(), kCommit) << "or the transaction would be passed over later";
    } else {
      EXPECT_EQ(decision, bound == kEnd ? kReleaseAndStop : kRelease);
    }
  }
  // At the commit LSN itself the transaction is not included, and the end is known at its Begin.
  StopBound at_commit(100, kCommit);
  EXPECT_EQ(at_commit.OnBegin(kCommit), kStop);
  EXPECT_EQ(at_commit.resume(), kCommit);
}

// proves S04
TEST(StopBoundTest, ComparesWithoutSign) {
  StopBound stop(0x7FFF'FFFF'FFFF'FF00, 0x8000'0000'0000'0010);
  EXPECT_FALSE(stop.reached());
  EXPECT_EQ(stop.OnKeepalive(0x7FFF'FFFF'FFFF'FFFF), kGoOn);
  EXPECT_EQ(stop.OnBegin(0x7FFF'FFFF'FFFF'FFF0), kHold);
  EXPECT_EQ(stop.OnCommit(0x7FFF'FFFF'FFFF'FFF0, 0x8000'0000'0000'0008), kRelease);
  EXPECT_EQ(stop.OnKeepalive(0x8000'0000'0000'0020), kStop);
}

}  // namespace
}  // namespace tidemark::capture::postgres
