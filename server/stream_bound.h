// The bound of one reader: what it asked for, what it may be given meanwhile, and what proves in
// the end that nothing is missing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"
#include "server/bound_desk.h"
#include "server/feed.h"
#include "server/tail_hub.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

// Up to where a reader reads. Everything is there once `proof` is proved.
struct ReadBound {
  Position until;
  Position proof;
};

// REQUEST_INVALID for what is wrong whatever the feed. Pure.
absl::Status CheckUntil(const v1::Until& until);

// Thread rule: one thread at a time.
class StreamBound {
 public:
  struct Reader {
    // The read begins behind it.
    Position start;
    // It begins with the rows as of `start`.
    bool with_rows = false;
    // Called by capture's thread when Update has news; must return at once.
    std::function<void()> on_news;
  };
  // Reads the store. The feed is lent. Reasons: REQUEST_INVALID, FEATURE_UNSUPPORTED,
  // BOUND_BEFORE_START, BOUND_BEFORE_SNAPSHOT, those of a cursor, and errors of the store.
  static absl::StatusOr<std::unique_ptr<StreamBound>> Open(Feed& feed, const v1::Until& until,
                                                           Reader reader);

  bool bounded() const { return bounded_; }
  // What may be delivered at present: while the bound is not known, what was visible before the
  // source could have been asked for it, which therefore lies within it.
  const TailLimit& limit() const { return limit_; }
  // Brings the limit up to date; true when the bound has just become known.
  bool Update();
  const std::optional<ReadBound>& known() const { return known_; }
  // The transaction there was committed later than `until` says: the bound lies just before it.
  void TooLateAt(const Position& position);
  // REQUIRES: known().
  v1::Bound Describe() const;
  // As much of what is proved as says something of the bound: one generation proves nothing of
  // another, but what stands at its end.
  Position ProvedHere(const Position& proved) const;
  // BOUND_UNREACHABLE when the bound lies in a gap, behind the end of a generation or before the
  // beginning of one, so that what lies before it is not known. To be asked once all that is there
  // was delivered.
  absl::Status CheckProvable() const;

 private:
  StreamBound(Feed& feed, Reader reader) : feed_(feed), reader_(std::move(reader)) {}

  absl::Status Set(const v1::Until& until);
  absl::Status SetTime(absl::Time time);
  absl::Status SetNative(const std::string& text);
  absl::Status SetCursor(const std::string& cursor);
  absl::Status CheckStart() const;
  absl::Status BeforeStart(const std::string& bound) const;
  void Ask(absl::Time after);
  void Know(const ReadBound& bound);

  Feed& feed_;
  const Reader reader_;
  bool bounded_ = false;
  bool by_cursor_ = false;
  TailLimit limit_;
  std::optional<ReadBound> known_;
  // What capture does for this reader, as long as they are held.
  std::shared_ptr<BoundDesk::Ticket> end_;
  std::shared_ptr<BoundDesk::Ticket> proof_;
};

}  // namespace tidemark
