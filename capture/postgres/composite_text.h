// Reads the text of a PostgreSQL row value, as record_out() prints it:
//
//   row    = '(' field (',' field)* ')'
//   field  = nothing, which is NULL | (char | '\' char | '"' (char | '""' | '\' char)* '"')+
//
// "()" is a row of one NULL, or of no field at all: the type knows. Pure; one thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidemark::capture::postgres {

enum class CompositeToken {
  kField,
  kNull,
  // The row is closed, and nothing follows.
  kEnd,
  kMalformed,
};

class CompositeTextReader {
 public:
  // `text` must outlive the reader.
  explicit CompositeTextReader(std::string_view text) : text_(text) {}

  // kField sets `field`, unescaped, valid until the next call. After kMalformed only kMalformed
  // follows.
  CompositeToken Next(std::string_view* field);

 private:
  CompositeToken Malformed();
  CompositeToken ReadField(std::string_view* field);

  std::string_view text_;
  size_t at_ = 0;
  bool started_ = false;
  bool closed_ = false;
  bool malformed_ = false;
  std::string scratch_;
};

}  // namespace tidemark::capture::postgres
