#include "capture/postgres/array_text.h"

#include <algorithm>
#include <charconv>

namespace tidemark::capture::postgres {

ArrayToken ArrayTextReader::Malformed() {
  malformed_ = true;
  return ArrayToken::kMalformed;
}

ArrayToken ArrayTextReader::Next(std::string_view* item) {
  if (malformed_) return ArrayToken::kMalformed;
  if (!started_) {
    started_ = true;
    if (!ReadBounds() || Peek() != '{') return Malformed();
    return Open();
  }
  if (depth_ == 0) return at_ == text_.size() ? ArrayToken::kEnd : Malformed();
  if (at_ == text_.size()) return Malformed();
  if (Peek() == '}') return Close();
  if (!wants_element_) {
    if (Peek() != delimiter_) return Malformed();
    ++at_;
    wants_element_ = true;
  }
  just_opened_ = false;
  if (Peek() == '{') {
    if (!CountElement(/*is_list=*/true)) return Malformed();
    return Open();
  }
  if (!CountElement(/*is_list=*/false)) return Malformed();
  wants_element_ = false;
  return Peek() == '"' ? ReadQuoted(item) : ReadBare(item);
}

std::span<const int32_t> ArrayTextReader::lower_bounds() const {
  const std::span<const int32_t> bounds(lower_bounds_.data(), bounds_count_);
  const bool is_default =
      std::all_of(bounds.begin(), bounds.end(), [](int32_t b) { return b == 1; });
  return is_default ? std::span<const int32_t>() : bounds;
}

bool ArrayTextReader::ReadBound(int32_t* bound) {
  const auto parsed = std::from_chars(text_.data() + at_, text_.data() + text_.size(), *bound);
  at_ = parsed.ptr - text_.data();
  return parsed.ec == std::errc();
}

bool ArrayTextReader::ReadBounds() {
  while (Peek() == '[') {
    int32_t lower = 0;
    int32_t upper = 0;
    if (bounds_count_ == kDimensionsMax) return false;
    ++at_;
    if (!ReadBound(&lower) || Peek() != ':') return false;
    ++at_;
    if (!ReadBound(&upper) || Peek() != ']' || upper < lower) return false;
    ++at_;
    lower_bounds_[bounds_count_++] = lower;
    lengths_[bounds_count_] = int64_t{upper} - lower + 1;
  }
  if (bounds_count_ == 0) return true;
  if (Peek() != '=') return false;
  ++at_;
  return true;
}

bool ArrayTextReader::CountElement(bool is_list) {
  ++counts_[depth_];
  if (is_list) return leaf_depth_ == 0 || depth_ < leaf_depth_;
  if (leaf_depth_ == 0) leaf_depth_ = depth_;
  return depth_ == leaf_depth_;
}

ArrayToken ArrayTextReader::Open() {
  if (depth_ == kDimensionsMax) return Malformed();
  ++at_;
  ++depth_;
  counts_[depth_] = 0;
  wants_element_ = true;
  just_opened_ = true;
  return ArrayToken::kOpen;
}

ArrayToken ArrayTextReader::Close() {
  const bool is_empty_array = just_opened_ && depth_ == 1 && bounds_count_ == 0;
  if (wants_element_ && !is_empty_array) return Malformed();
  int64_t& length = lengths_[depth_];
  const auto count = static_cast<int64_t>(counts_[depth_]);
  if (length >= 0 && length != count) return Malformed();
  length = count;
  ++at_;
  --depth_;
  wants_element_ = false;
  just_opened_ = false;
  // Every announced dimension must have been there.
  if (depth_ == 0 && bounds_count_ != 0 && bounds_count_ != leaf_depth_) return Malformed();
  return ArrayToken::kClose;
}

ArrayToken ArrayTextReader::ReadQuoted(std::string_view* item) {
  const size_t begin = ++at_;
  at_ = std::min(text_.find_first_of("\"\\", at_), text_.size());
  if (Peek() == '"') {
    *item = text_.substr(begin, at_++ - begin);
    return ArrayToken::kItem;
  }
  scratch_.assign(text_, begin, at_ - begin);
  for (; at_ < text_.size(); ++at_) {
    if (text_[at_] == '"') {
      ++at_;
      *item = scratch_;
      return ArrayToken::kItem;
    }
    if (text_[at_] == '\\' && ++at_ == text_.size()) break;
    scratch_.push_back(text_[at_]);
  }
  return Malformed();
}

ArrayToken ArrayTextReader::ReadBare(std::string_view* item) {
  const size_t begin = at_;
  bool has_escape = false;
  scratch_.clear();
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == delimiter_ || c == '}') break;
    // array_out() quotes an element that holds one of these.
    if (c == '{' || c == '"') return Malformed();
    if (c == '\\') {
      if (!has_escape) scratch_.assign(text_, begin, at_ - begin);
      has_escape = true;
      if (++at_ == text_.size()) break;
    }
    if (has_escape) scratch_.push_back(text_[at_]);
  }
  const std::string_view bare = text_.substr(begin, at_ - begin);
  if (bare.empty()) return Malformed();
  if (bare == "NULL") return ArrayToken::kNull;
  *item = has_escape ? std::string_view(scratch_) : bare;
  return ArrayToken::kItem;
}

}  // namespace tidemark::capture::postgres
