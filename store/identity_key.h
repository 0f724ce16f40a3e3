// The identity of a row as bytes: what the rows are keyed by. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tidemark::store {

// Appends one value of an identity, given as a serialized tidemark.v1.Value. A key is the values of
// the key columns, appended in key order.
//
// Each value is a kind byte and a body that tells where it ends, so that no key is the prefix of
// another of the same table, and keys of equal kinds compare (memcmp) as their values do: NULL
// first, integers and floats by value, text and bytes bytewise. Exact decimals and times compare as
// text. Equality is equality of the bytes that the source gave: 1.0 and 1.00 are two identities,
// which agrees with the source, for it calls that update a change of the key.
//
// IDENTITY_UNUSABLE for an absent value and for one in parts; STORE_DAMAGED for bytes that are no
// Value. `key` is then left with part of the value appended.
absl::Status AppendIdentityValue(std::string_view serialized_value, std::string* key);

}  // namespace tidemark::store
