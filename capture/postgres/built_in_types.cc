#include "capture/postgres/built_in_types.h"

#include "absl/container/flat_hash_map.h"

namespace tidemark::capture::postgres {
namespace {

using enum TextReading;

// Types that no column can have (pseudo types) or that hold the planner's own data are left out:
// like everything unknown they read as text.
constexpr BuiltInType kTypes[] = {
    {16, 1000, "boolean", kBoolean},
    {17, 1001, "bytea", kBinary},
    {18, 1002, "\"char\"", kText},
    {19, 1003, "name", kText},
    {20, 1016, "bigint", kInteger},
    {21, 1005, "smallint", kInteger},
    // Not array text, though the catalog calls them arrays: "1 2 3".
    {22, 1006, "int2vector", kText},
    {30, 1013, "oidvector", kText},
    {23, 1007, "integer", kInteger},
    {24, 1008, "regproc", kText},
    {25, 1009, "text", kText},
    {26, 1028, "oid", kInteger},
    {27, 1010, "tid", kText},
    {28, 1011, "xid", kInteger},
    {29, 1012, "cid", kInteger},
    {114, 199, "json", kJson},
    {142, 143, "xml", kText},
    {600, 1017, "point", kText},
    {601, 1018, "lseg", kText},
    {602, 1019, "path", kText},
    {603, 1020, "box", kText, ';'},
    {604, 1027, "polygon", kText},
    {628, 629, "line", kText},
    {650, 651, "cidr", kText},
    {700, 1021, "real", kFloat32},
    {701, 1022, "double precision", kFloat64},
    {718, 719, "circle", kText},
    {774, 775, "macaddr8", kText},
    {790, 791, "money", kText},
    {829, 1040, "macaddr", kText},
    {869, 1041, "inet", kText},
    {1033, 1034, "aclitem", kText},
    {1042, 1014, "bpchar", kText},
    {1043, 1015, "character varying", kText},
    {1082, 1182, "date", kDate},
    {1083, 1183, "time without time zone", kTime},
    {1114, 1115, "timestamp without time zone", kTimestamp},
    {1184, 1185, "timestamp with time zone", kTimestampWithZone},
    {1186, 1187, "interval", kInterval},
    {1266, 1270, "time with time zone", kTimeWithZone},
    {1560, 1561, "bit", kText},
    {1562, 1563, "bit varying", kText},
    {1700, 1231, "numeric", kDecimal},
    {1790, 2201, "refcursor", kText},
    {2202, 2207, "regprocedure", kText},
    {2203, 2208, "regoper", kText},
    {2204, 2209, "regoperator", kText},
    {2205, 2210, "regclass", kText},
    {2206, 2211, "regtype", kText},
    {2950, 2951, "uuid", kText},
    {2970, 2949, "txid_snapshot", kText},
    {3220, 3221, "pg_lsn", kText},
    {3614, 3643, "tsvector", kText},
    {3615, 3645, "tsquery", kText},
    {3734, 3735, "regconfig", kText},
    {3769, 3770, "regdictionary", kText},
    {3802, 3807, "jsonb", kJson},
    {3904, 3905, "int4range", kText},
    {3906, 3907, "numrange", kText},
    {3908, 3909, "tsrange", kText},
    {3910, 3911, "tstzrange", kText},
    {3912, 3913, "daterange", kText},
    {3926, 3927, "int8range", kText},
    {4072, 4073, "jsonpath", kText},
    {4089, 4090, "regnamespace", kText},
    {4096, 4097, "regrole", kText},
    {4191, 4192, "regcollation", kText},
    {4451, 6150, "int4multirange", kText},
    {4532, 6151, "nummultirange", kText},
    {4533, 6152, "tsmultirange", kText},
    {4534, 6153, "tstzmultirange", kText},
    {4535, 6155, "datemultirange", kText},
    {4536, 6157, "int8multirange", kText},
    {5038, 5039, "pg_snapshot", kText},
    {5069, 271, "xid8", kUnsignedInteger},
};

using Index = absl::flat_hash_map<uint32_t, const BuiltInType*>;

const BuiltInType* Find(const Index& index, uint32_t oid) {
  const auto found = index.find(oid);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace

const BuiltInType* FindBuiltIn(uint32_t oid) {
  static const Index& index = *[] {
    auto* by_oid = new Index;
    for (const BuiltInType& type : kTypes) by_oid->emplace(type.oid, &type);
    return by_oid;
  }();
  return Find(index, oid);
}

const BuiltInType* FindBuiltInElement(uint32_t array_oid) {
  static const Index& index = *[] {
    auto* by_array_oid = new Index;
    for (const BuiltInType& type : kTypes) by_array_oid->emplace(type.array_oid, &type);
    return by_array_oid;
  }();
  return Find(index, array_oid);
}

}  // namespace tidemark::capture::postgres
