// Names of tables as people write them: schema.table, each part bare or in double quotes. Pure;
// safe from any thread.
//
// A bare part is lower-case letters, digits and _; in a pattern also * (any run of characters) and
// ? (one character). Any other name is put in double quotes, a double quote inside doubled, as in
// SQL: public."Order.Lines". Inside double quotes nothing is a glob.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tidemark {

// The one text that ParseTablePattern reads back as exactly this table.
std::string TableNameText(std::string_view schema, std::string_view table);

// Which tables are meant: one exactly, or all that fit.
class TablePattern {
 public:
  // InvalidArgument says what is wrong and how the name is written; it carries no reason, since
  // that depends on where the text stands.
  static absl::StatusOr<TablePattern> Parse(std::string_view text);

  bool Matches(std::string_view schema, std::string_view table) const;

  // No part is a glob: it names schema() and table().
  bool exact() const { return !schema_.glob && !table_.glob; }
  const std::string& schema() const { return schema_.text; }
  const std::string& table() const { return table_.text; }
  bool schema_exact() const { return !schema_.glob; }

  // Parses back to an equal pattern.
  std::string Text() const;

 private:
  struct Part {
    std::string text;
    bool glob = false;
  };
  static absl::StatusOr<Part> ParsePart(std::string_view* rest);

  Part schema_;
  Part table_;
};

}  // namespace tidemark
