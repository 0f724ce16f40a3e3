// The identity of a table schema. Pure; safe from any thread.
#pragma once

#include <cstdint>

#include "tidemark/v1/change.pb.h"

namespace tidemark {

// Hash of the schema's content without its schema_id: equal content has an equal id on every
// capture and every server.
uint64_t SchemaId(const v1::TableSchema& schema);

}  // namespace tidemark
