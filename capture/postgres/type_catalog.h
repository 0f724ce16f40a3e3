// Which form the values of a PostgreSQL type take. The built-in types are known by their OID, which
// never changes, so that what a stream yields does not depend on when a catalog was read; types
// that a database defines are added from pg_type and pg_attribute.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture::postgres {

// typtype of pg_type, but for kArray: a type with typelem whose output is array text (typsubscript
// is array_subscript_handler).
enum class TypeKind { kBase, kArray, kDomain, kEnum, kComposite, kRange, kMultirange };

struct TypeField {
  std::string name;
  uint32_t type_oid = 0;
  int32_t typmod = -1;
};

// A type that a database defines, as read from its catalog.
struct TypeInfo {
  uint32_t oid = 0;
  std::string schema_name;
  std::string name;
  TypeKind kind = TypeKind::kBase;
  // kArray: typelem.
  uint32_t element_oid = 0;
  // typdelim: what separates values of this type in array text.
  char delimiter = ',';
  // kDomain: typbasetype and typtypmod.
  uint32_t base_oid = 0;
  int32_t base_typmod = -1;
  // kComposite: the attributes that are not dropped, in order.
  std::vector<TypeField> fields;
};

// How the text of a value is to be read.
enum class TextReading : uint8_t {
  kText,
  kBoolean,
  kInteger,
  kUnsignedInteger,
  kFloat32,
  kFloat64,
  kDecimal,
  kBinary,
  kJson,
  kDate,
  kTime,
  kTimeWithZone,
  kTimestamp,
  kTimestampWithZone,
  kInterval,
  kList,
  kComposite,
};

// A type, resolved down to built-in ones: what EncodeText (value.h) needs. Immutable.
struct ValueType {
  TextReading reading = TextReading::kText;
  // For errors.
  std::string name;
  // kList.
  std::shared_ptr<const ValueType> element;
  char element_delimiter = ',';
  // kComposite.
  std::vector<std::shared_ptr<const ValueType>> fields;
};

v1::ValueForm FormOf(const ValueType& type);
// A composite, or a list of such.
bool HoldsComposite(const ValueType& type);

// Thread rule: one thread at a time; a resolved ValueType may be used by any. Nothing fails: a type
// that is not known, or nested deeper than kTypeDepthMax, is read as text.
class TypeCatalog {
 public:
  static constexpr int kTypeDepthMax = 16;

  // Replaces what was added under that OID. A built-in type stays what it is. Resolved types keep
  // the old meaning: resolve again after the last Add.
  void Add(TypeInfo type);
  // Forgets every type that was added.
  void Clear();

  // True for built-in types and added ones. pgoutput announces the others by a Type message.
  bool Knows(uint32_t oid) const;
  // Null unless added.
  const TypeInfo* Find(uint32_t oid) const;

  std::shared_ptr<const ValueType> Resolve(uint32_t oid) const;
  v1::ValueForm FormOf(uint32_t oid) const { return postgres::FormOf(*Resolve(oid)); }

  // Column.source_type: numeric(10,2), character(3), timestamp(3) with time zone, text[], mood,
  // other_schema.mood[]. As format_type() of the server, but that a schema other than pg_catalog
  // and public is always named, whatever the search path.
  std::string SourceType(uint32_t oid, int32_t typmod) const;

 private:
  std::shared_ptr<const ValueType> ResolveAt(uint32_t oid, int depth) const;
  static std::shared_ptr<const ValueType> ListOf(std::shared_ptr<const ValueType> element,
                                                 char delimiter);
  char DelimiterOf(uint32_t oid) const;

  absl::flat_hash_map<uint32_t, TypeInfo> types_;
  mutable absl::flat_hash_map<uint32_t, std::shared_ptr<const ValueType>> resolved_;
};

}  // namespace tidemark::capture::postgres
