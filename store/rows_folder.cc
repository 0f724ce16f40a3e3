#include "store/rows_folder.h"

namespace tidemark::store {

absl::StatusOr<bool> RowsFolder::FoldOnce() { return false; }

}  // namespace tidemark::store
