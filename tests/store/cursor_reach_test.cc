// Which boundaries still resume, and what is said of those that do not.
#include "store/cursor_reach.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/reason.h"

namespace tidemark::store {
namespace {

Position At(uint32_t generation, uint64_t engine) { return Position::Of(generation, engine); }

struct Case {
  const char* what;
  Position cursor;
  Position floor;
  Position head;
  Position end_of_generation;
  absl::StatusCode code;
  std::string_view reason;
};

TEST(CursorReachTest, TellsApartWhatCannotResume) {
  using absl::StatusCode;
  const std::vector<Case> table = {
      {"at the floor", At(1, 10), At(1, 10), At(1, 20), At(1, 20), StatusCode::kOk, ""},
      {"at the head", At(1, 20), At(1, 10), At(1, 20), At(1, 20), StatusCode::kOk, ""},
      {"in an empty feed", At(1, 5), At(1, 5), At(1, 5), At(1, 5), StatusCode::kOk, ""},
      {"before the floor", At(1, 9), At(1, 10), At(1, 20), At(1, 20), StatusCode::kOutOfRange,
       reason::kCursorExpired},
      {"behind the head", At(1, 21), At(1, 10), At(1, 20), At(1, 20), StatusCode::kUnavailable,
       reason::kCursorAhead},
      {"in a generation to come", At(2, 1), At(1, 10), At(1, 20), At(1, 20),
       StatusCode::kUnavailable, reason::kCursorAhead},
      {"inside a closed generation", At(1, 15), At(1, 10), At(2, 3), At(1, 20), StatusCode::kOk,
       ""},
      {"at the end of a closed generation", At(1, 20), At(1, 10), At(2, 3), At(1, 20),
       StatusCode::kOk, ""},
      {"behind the end of a closed generation", At(1, 21), At(1, 10), At(2, 3), At(1, 20),
       StatusCode::kFailedPrecondition, reason::kCursorDiverged},
      {"of a closed generation that was trimmed", At(1, 15), At(2, 1), At(2, 3), At(1, 20),
       StatusCode::kOutOfRange, reason::kCursorExpired},
      {"behind the end of a trimmed generation", At(1, 21), At(2, 1), At(2, 3), At(1, 20),
       StatusCode::kFailedPrecondition, reason::kCursorDiverged},
      {"ordinals count", At(1, 20).WithOrdinal(1), At(1, 10), At(1, 20), At(1, 20),
       StatusCode::kUnavailable, reason::kCursorAhead},
  };
  for (const Case& c : table) {
    const absl::Status status = CheckReach(c.cursor, c.floor, c.head, c.end_of_generation);
    EXPECT_EQ(status.code(), c.code) << c.what << ": " << status;
    EXPECT_EQ(ReasonOf(status), c.reason) << c.what;
    if (status.ok()) continue;
    const ErrorDetails details = DetailsOf(status);
    EXPECT_EQ(details.at("cursor_position"), c.cursor.Text()) << c.what;
    EXPECT_EQ(details.at("floor_position"), c.floor.Text()) << c.what;
    EXPECT_EQ(details.at("head_position"), c.head.Text()) << c.what;
    EXPECT_EQ(details.at("cursor_generation"), std::to_string(c.cursor.generation())) << c.what;
    EXPECT_EQ(details.at("generation"), std::to_string(c.head.generation())) << c.what;
  }
}

TEST(CursorReachTest, NamesTheMissingInterval) {
  const ErrorDetails details = DetailsOf(CheckReach(At(1, 9), At(1, 10), At(1, 20), At(1, 20)));
  EXPECT_EQ(details.at("missing_from_position"), At(1, 9).Text());
  EXPECT_EQ(details.at("missing_to_position"), At(1, 10).Text());
}

TEST(CursorReachTest, NamesTheEndOfTheClosedGeneration) {
  const ErrorDetails details = DetailsOf(CheckReach(At(1, 21), At(1, 10), At(2, 3), At(1, 20)));
  EXPECT_EQ(details.at("end_of_generation_position"), At(1, 20).Text());
}

}  // namespace
}  // namespace tidemark::store
