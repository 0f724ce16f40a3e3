// A record of a verification as a line: for people, and as JSON. And how the command ends by what
// came. Pure.
#pragma once

#include <string>

#include "tidemark/v1/admin.pb.h"

namespace tidemark::command {

// Without line ends.
std::string VerifyText(const v1::VerifyResponse& record);
// {"table":…,"kind":"missing","key":{…},…}; the last of a table has "totals" instead of a kind.
std::string VerifyJson(const v1::VerifyResponse& record);

// What the records of a whole verification say: kDone, kDifferent or kUndecided.
class VerifyVerdict {
 public:
  void Take(const v1::VerifyResponse& record);
  int exit_code() const;

 private:
  bool differs_ = false;
  bool undecided_ = false;
};

}  // namespace tidemark::command
