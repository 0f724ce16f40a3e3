// A stored value as text that PostgreSQL takes for one of its type: to ask the source for rows by
// the keys that are known of them. Pure.
#pragma once

#include <string>

#include "tidemark/v1/change.pb.h"

namespace tidemark::capture::postgres {

// Empty for an absent value and for NULL, which no key holds.
std::string InputText(const v1::Value& value);

}  // namespace tidemark::capture::postgres
