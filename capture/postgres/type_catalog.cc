#include "capture/postgres/type_catalog.h"

#include <algorithm>
#include <utility>

#include "capture/postgres/built_in_types.h"
#include "capture/postgres/source_type.h"

namespace tidemark::capture::postgres {
namespace {

std::shared_ptr<const ValueType> Scalar(TextReading reading, std::string_view name) {
  auto type = std::make_shared<ValueType>();
  type->reading = reading;
  type->name = name;
  return type;
}

}  // namespace

bool HoldsComposite(const ValueType& type) {
  if (type.reading == TextReading::kList) return HoldsComposite(*type.element);
  return type.reading == TextReading::kComposite;
}

v1::ValueForm FormOf(const ValueType& type) {
  switch (type.reading) {
    case TextReading::kText:
      return v1::VALUE_FORM_TEXT;
    case TextReading::kBoolean:
      return v1::VALUE_FORM_BOOLEAN;
    case TextReading::kInteger:
      return v1::VALUE_FORM_INTEGER;
    case TextReading::kUnsignedInteger:
      return v1::VALUE_FORM_UNSIGNED_INTEGER;
    case TextReading::kFloat32:
      return v1::VALUE_FORM_FLOAT32;
    case TextReading::kFloat64:
      return v1::VALUE_FORM_FLOAT64;
    case TextReading::kDecimal:
      return v1::VALUE_FORM_DECIMAL;
    case TextReading::kBinary:
      return v1::VALUE_FORM_BINARY;
    case TextReading::kJson:
      return v1::VALUE_FORM_JSON;
    case TextReading::kDate:
    case TextReading::kTime:
    case TextReading::kTimeWithZone:
    case TextReading::kTimestamp:
    case TextReading::kTimestampWithZone:
    case TextReading::kInterval:
      return v1::VALUE_FORM_TEMPORAL;
    case TextReading::kList:
      return v1::VALUE_FORM_LIST;
    case TextReading::kComposite:
      return v1::VALUE_FORM_COMPOSITE;
  }
  return v1::VALUE_FORM_TEXT;
}

void TypeCatalog::Add(TypeInfo type) {
  resolved_.clear();
  types_.insert_or_assign(type.oid, std::move(type));
}

void TypeCatalog::Clear() {
  resolved_.clear();
  types_.clear();
}

bool TypeCatalog::Knows(uint32_t oid) const {
  return FindBuiltIn(oid) != nullptr || FindBuiltInElement(oid) != nullptr || types_.contains(oid);
}

const TypeInfo* TypeCatalog::Find(uint32_t oid) const {
  const auto found = types_.find(oid);
  return found == types_.end() ? nullptr : &found->second;
}

std::shared_ptr<const ValueType> TypeCatalog::Resolve(uint32_t oid) const {
  if (const auto found = resolved_.find(oid); found != resolved_.end()) return found->second;
  std::shared_ptr<const ValueType> type = ResolveAt(oid, 0);
  resolved_.emplace(oid, type);
  return type;
}

std::shared_ptr<const ValueType> TypeCatalog::ResolveAt(uint32_t oid, int depth) const {
  if (const BuiltInType* type = FindBuiltIn(oid)) return Scalar(type->reading, type->name);
  if (const BuiltInType* element = FindBuiltInElement(oid)) {
    return ListOf(Scalar(element->reading, element->name), element->delimiter);
  }
  const TypeInfo* type = Find(oid);
  // A type cannot contain itself in PostgreSQL; a catalog read while it changes might say so.
  if (type == nullptr || depth >= kTypeDepthMax) {
    return Scalar(TextReading::kText, SourceType(oid, -1));
  }
  switch (type->kind) {
    case TypeKind::kArray:
      return ListOf(ResolveAt(type->element_oid, depth + 1), DelimiterOf(type->element_oid));
    case TypeKind::kDomain:
      return ResolveAt(type->base_oid, depth + 1);
    case TypeKind::kComposite: {
      auto composite = std::make_shared<ValueType>();
      composite->reading = TextReading::kComposite;
      composite->name = SourceType(oid, -1);
      for (const TypeField& field : type->fields) {
        composite->fields.push_back(ResolveAt(field.type_oid, depth + 1));
      }
      return composite;
    }
    case TypeKind::kBase:
    case TypeKind::kEnum:
    case TypeKind::kRange:
    case TypeKind::kMultirange:
      break;
  }
  return Scalar(TextReading::kText, SourceType(oid, -1));
}

std::shared_ptr<const ValueType> TypeCatalog::ListOf(std::shared_ptr<const ValueType> element,
                                                     char delimiter) {
  auto list = std::make_shared<ValueType>();
  list->reading = TextReading::kList;
  list->name = element->name + "[]";
  list->element = std::move(element);
  list->element_delimiter = delimiter;
  return list;
}

char TypeCatalog::DelimiterOf(uint32_t oid) const {
  if (const BuiltInType* type = FindBuiltIn(oid)) return type->delimiter;
  const TypeInfo* type = Find(oid);
  return type == nullptr ? ',' : type->delimiter;
}

std::string TypeCatalog::SourceType(uint32_t oid, int32_t typmod) const {
  if (const BuiltInType* type = FindBuiltIn(oid)) return BuiltInSourceType(*type, typmod);
  if (const BuiltInType* element = FindBuiltInElement(oid)) {
    return BuiltInSourceType(*element, typmod) + "[]";
  }
  const TypeInfo* type = Find(oid);
  if (type == nullptr) return "oid " + std::to_string(oid);
  // An array shows its element: the array type's own name is made up by the server. What would be
  // an endless chain ends at a name.
  if (type->kind == TypeKind::kArray && type->element_oid != oid) {
    const TypeInfo* element = Find(type->element_oid);
    if (element == nullptr || element->kind != TypeKind::kArray) {
      return SourceType(type->element_oid, typmod) + "[]";
    }
  }
  return QualifiedName(type->schema_name, type->name);
}

}  // namespace tidemark::capture::postgres
