// The image of a row taken apart into its values, two rows compared across a change of schema, and
// the key of a row for people. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture {

// The serialized Values of an image as ChangeImages takes it, in order; views into it. DataLoss
// when the bytes are no image.
absl::StatusOr<std::vector<std::string_view>> ValuesOf(std::string_view image);

// `image` with the values of `columns` (rising) as `from`, of the same schema, has them.
absl::StatusOr<std::string> WithValuesOf(std::string_view image, std::string_view from,
                                         std::span<const uint32_t> columns);

// A row of a table, and the schema that it stands under. Lent.
struct RowImage {
  const v1::TableSchema* schema = nullptr;
  std::string_view after;
};

// A column of which two rows do not say the same.
struct ColumnDifference {
  std::string name;
  // Nobody ever told what the known row holds there; else it holds another value.
  bool absent = false;

  friend bool operator==(const ColumnDifference&, const ColumnDifference&) = default;
};

// The columns of `read` of which `known` does not say what `read` says: by name and bytes of the
// value, in the order of `read`. A column that `known` does not have counts as NULL there, as it
// does at a source that adds one; a value that nobody ever told is never the same. A column that
// only `known` has does not count.
absl::StatusOr<std::vector<ColumnDifference>> ColumnsThatDiffer(const RowImage& known,
                                                                const RowImage& read);

// Which columns of a table an image holds.
enum class ImageColumns { kAll, kKey };

// The key of a row of the table as an object of JSON, for people, with its columns in the order of
// the key. What is unreadable is left out.
std::string KeyJson(const v1::TableSchema& schema, std::string_view image, ImageColumns columns);

}  // namespace tidemark::capture
