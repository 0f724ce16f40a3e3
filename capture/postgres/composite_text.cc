#include "capture/postgres/composite_text.h"

namespace tidemark::capture::postgres {

CompositeToken CompositeTextReader::Malformed() {
  malformed_ = true;
  return CompositeToken::kMalformed;
}

CompositeToken CompositeTextReader::Next(std::string_view* field) {
  if (malformed_) return CompositeToken::kMalformed;
  if (closed_) return at_ == text_.size() ? CompositeToken::kEnd : Malformed();
  if (!started_) {
    started_ = true;
    if (text_.empty() || text_[at_++] != '(') return Malformed();
  }
  return ReadField(field);
}

// Consumes the field and the ',' or ')' behind it.
CompositeToken CompositeTextReader::ReadField(std::string_view* field) {
  const size_t begin = at_;
  bool quoted = false;
  scratch_.clear();
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (!quoted && (c == ',' || c == ')')) {
      const bool is_null = at_ == begin;
      closed_ = c == ')';
      ++at_;
      *field = scratch_;
      return is_null ? CompositeToken::kNull : CompositeToken::kField;
    }
    if (!quoted && c == '(') break;  // record_out() quotes it
    if (c == '"') {
      const bool doubled = quoted && at_ + 1 < text_.size() && text_[at_ + 1] == '"';
      if (!doubled) {
        quoted = !quoted;
        continue;
      }
      ++at_;
    } else if (c == '\\' && ++at_ == text_.size()) {
      break;
    }
    scratch_.push_back(text_[at_]);
  }
  return Malformed();
}

}  // namespace tidemark::capture::postgres
