// Conditions of SQL on the key of a table, in the order by which its index has the rows. Pure; safe
// from any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "capture/postgres/relation_cache.h"

namespace tidemark::capture::postgres {

// A key: the text of its columns, in key order. REQUIRES: the relation's description is of the
// catalog.
using KeyTexts = std::vector<std::string>;

// "a, b" in parentheses; one column stands without.
std::string KeyTuple(const Relation& relation);
// The rows behind it.
std::string BehindKey(const KeyTexts& key, const Relation& relation);
// The rows that have one of them; REQUIRES: not empty. For a type with an order of its own also
// rows whose text is another one, and which it takes for the same.
std::string WithKeys(std::span<const KeyTexts> keys, const Relation& relation);

}  // namespace tidemark::capture::postgres
