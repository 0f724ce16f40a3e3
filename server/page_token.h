// How a Read page that ended inside a large transaction is gone on with. It is no cursor: the text
// is none that a cursor could have, and it is refused as one. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/log_pager.h"

namespace tidemark {

std::string PageTokenText(const InsidePosition& inside);

// REQUEST_INVALID for anything that PageTokenText did not make.
absl::StatusOr<InsidePosition> ParsePageToken(std::string_view text);

// The boundary just before a position.
Position BoundaryBefore(const Position& position);

}  // namespace tidemark
