// Reads the text of a PostgreSQL array, as array_out() prints it:
//
//   array   = [bounds '='] list            bounds = ('[' lower ':' upper ']') per dimension
//   list    = '{' '}' | '{' element (delimiter element)* '}'         '{}' only as the whole array
//   element = list | 'NULL' | '"' (char | '\' char)* '"' | (char | '\' char)+
//
// All elements of one depth are lists of equal length, or none is a list. Pure; one thread at a
// time; memory grows with the longest item only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tidemark::capture::postgres {

enum class ArrayToken {
  kOpen,
  kClose,
  kItem,
  kNull,
  // The outermost list is closed, and nothing follows.
  kEnd,
  kMalformed,
};

class ArrayTextReader {
 public:
  // PostgreSQL's own bound (MAXDIM).
  static constexpr int kDimensionsMax = 6;

  // `text` must outlive the reader.
  ArrayTextReader(std::string_view text, char delimiter) : text_(text), delimiter_(delimiter) {
    lengths_.fill(-1);
  }

  // kItem sets `item`, unescaped, valid until the next call. After kMalformed only kMalformed
  // follows.
  ArrayToken Next(std::string_view* item);

  // Lists that are open.
  int depth() const { return depth_; }
  // Lower bound of each dimension; empty when every one is 1.
  std::span<const int32_t> lower_bounds() const;

 private:
  ArrayToken Malformed();
  bool ReadBounds();
  bool ReadBound(int32_t* bound);
  ArrayToken Open();
  ArrayToken Close();
  ArrayToken ReadQuoted(std::string_view* item);
  ArrayToken ReadBare(std::string_view* item);
  bool CountElement(bool is_list);
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string_view text_;
  char delimiter_;
  size_t at_ = 0;
  bool started_ = false;
  bool malformed_ = false;
  // An element must follow, or after '{' may.
  bool wants_element_ = false;
  bool just_opened_ = false;
  int depth_ = 0;
  // Depth at which elements are no lists; 0 while that is not known.
  int leaf_depth_ = 0;
  std::array<uint64_t, kDimensionsMax + 1> counts_{};  // of the open list at each depth
  std::array<int64_t, kDimensionsMax + 1> lengths_{};  // of every list at each depth; -1 unknown
  int bounds_count_ = 0;
  std::array<int32_t, kDimensionsMax> lower_bounds_{};
  std::string scratch_;
};

}  // namespace tidemark::capture::postgres
