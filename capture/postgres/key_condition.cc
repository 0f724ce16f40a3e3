#include "capture/postgres/key_condition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/strings/str_join.h"
#include "capture/postgres/sql_text.h"

namespace tidemark::capture::postgres {
namespace {

// In the order of DescribedColumn::operators.
enum class Comparison { kEqual, kFrom, kBehind };
constexpr const char* kServersOwn[] = {"=", ">=", ">"};

const DescribedColumn& KeyColumn(const Relation& relation, size_t i) {
  return relation.description.columns.at(relation.shape.key_columns.at(i));
}

// Where the empty search path would find other operators than those of the index, or none.
bool HasOwnOperators(const Relation& relation) {
  for (size_t i = 0; i < relation.shape.key_columns.size(); ++i) {
    if (!KeyColumn(relation, i).operators.empty()) return true;
  }
  return false;
}

// Of the type of the column: a literal of no type is none of a composite.
std::string Literal(const KeyTexts& key, const Relation& relation, size_t i) {
  return QuoteLiteral(key.at(i)) + "::" + KeyColumn(relation, i).sql_type;
}

std::string Compared(const KeyTexts& key, const Relation& relation, size_t i,
                     Comparison comparison) {
  const DescribedColumn& column = KeyColumn(relation, i);
  const auto place = static_cast<size_t>(comparison);
  return fmt::format("{} {} {}", QuoteIdentifier(column.name),
                     column.operators.empty() ? kServersOwn[place] : column.operators.at(place),
                     Literal(key, relation, i));
}

std::string TupleText(const std::vector<std::string>& parts) {
  std::string tuple;
  for (const std::string& part : parts) tuple += (tuple.empty() ? "" : ", ") + part;
  return parts.size() == 1 ? tuple : "(" + tuple + ")";
}

std::string Literals(const KeyTexts& key, const Relation& relation) {
  std::vector<std::string> literals;
  for (size_t i = 0; i < key.size(); ++i) literals.push_back(Literal(key, relation, i));
  return TupleText(literals);
}

std::string WithKeysByOwnOperators(std::span<const KeyTexts> keys, const Relation& relation) {
  std::vector<std::string> each;
  // As IN, which can name no operator: the keys are looked up in the index, or by their hash.
  if (relation.shape.key_columns.size() == 1) {
    for (const KeyTexts& key : keys) each.push_back(Literal(key, relation, 0));
    const DescribedColumn& column = KeyColumn(relation, 0);
    return fmt::format("{} {} ANY (ARRAY[{}])", QuoteIdentifier(column.name),
                       column.operators.at(static_cast<size_t>(Comparison::kEqual)),
                       fmt::join(each, ", "));
  }
  for (const KeyTexts& key : keys) {
    std::vector<std::string> equal;
    for (size_t i = 0; i < key.size(); ++i) {
      equal.push_back(Compared(key, relation, i, Comparison::kEqual));
    }
    each.push_back(absl::StrJoin(equal, " AND "));
  }
  return "(" + absl::StrJoin(each, " OR ") + ")";
}

}  // namespace

std::string KeyTuple(const Relation& relation) {
  std::vector<std::string> names;
  for (size_t i = 0; i < relation.shape.key_columns.size(); ++i) {
    names.push_back(QuoteIdentifier(KeyColumn(relation, i).name));
  }
  return TupleText(names);
}

std::string BehindKey(const KeyTexts& key, const Relation& relation) {
  // The form by which an index of several columns is entered (Q1).
  if (!HasOwnOperators(relation)) return KeyTuple(relation) + " > " + Literals(key, relation);
  std::string behind = Compared(key, relation, key.size() - 1, Comparison::kBehind);
  for (size_t i = key.size() - 1; i-- > 0;) {
    behind =
        fmt::format("{} AND ({} OR ({} AND {}))", Compared(key, relation, i, Comparison::kFrom),
                    Compared(key, relation, i, Comparison::kBehind),
                    Compared(key, relation, i, Comparison::kEqual), behind);
  }
  return behind;
}

std::string WithKeys(std::span<const KeyTexts> keys, const Relation& relation) {
  if (HasOwnOperators(relation)) return WithKeysByOwnOperators(keys, relation);
  std::vector<std::string> each;
  for (const KeyTexts& key : keys) each.push_back(Literals(key, relation));
  // A list of values enters the index. One of tuples is tried on each row, one by one, where rows
  // of VALUES are joined: of 500 keys in a million rows without statistics, 0.3 s for 4.3 s.
  const char* const rows = relation.shape.key_columns.size() > 1 ? "VALUES " : "";
  return fmt::format("{} IN ({}{})", KeyTuple(relation), rows, fmt::join(each, ", "));
}

}  // namespace tidemark::capture::postgres
