// The rules of the tree, as data. An exception is added here, by file, with its reason.
#pragma once

#include <string>
#include <vector>

namespace tidemark::tree {

struct FolderRule {
  std::string folder;
  std::vector<std::string> may_include;  // folders, besides itself; "*" is all
};

inline const std::vector<FolderRule>& FolderRules() {
  static const std::vector<FolderRule> rules = {
      {"proto", {}},         {"capture", {"proto"}},
      {"store", {"proto"}},  {"server", {"proto", "capture", "store"}},
      {"client", {"proto"}}, {"tests", {"*"}},
      {"bench", {"*"}},      {"deploy", {}},
  };
  return rules;
}

struct LibraryRule {
  std::string library;
  std::string header;                // what an include of it begins with
  std::vector<std::string> allowed;  // what the path of the including file begins with
};

inline const std::vector<LibraryRule>& LibraryRules() {
  static const std::vector<LibraryRule> rules = {
      {"libpq", "libpq-fe.h", {"capture/postgres/connection.", "tests/", "bench/"}},
      {"libpq", "postgres", {}},
      // The crash file system derives from RocksDB's; peers are measured as they are.
      {"RocksDB", "rocksdb/", {"store/", "tests/testing/crash_files.", "tests/store/", "bench/"}},
      {"gRPC", "grpc/", {"server/", "client/", "tests/", "bench/"}},
      {"gRPC", "grpcpp/", {"server/", "client/", "tests/", "bench/"}},
      {"generated services",
       "tidemark/v1/feed.grpc.pb.h",
       {"server/", "client/", "tests/", "bench/"}},
      {"generated services",
       "tidemark/v1/admin.grpc.pb.h",
       {"server/", "client/", "tests/", "bench/"}},
      {"yaml-cpp", "yaml-cpp/", {"server/yaml_tree."}},
      // Content hashes of schemas; cursor MAC and keys, random feed identities; checksums of
      // exports.
      {"OpenSSL", "openssl/", {"proto/schema_id.", "store/", "client/command/file_digest."}},
      // Libraries return errors; only the server logs.
      {"spdlog", "spdlog/", {"server/"}},
      {"prometheus", "prometheus/", {"server/"}},
      {"CLI11", "CLI/", {"server/main.", "client/", "store/logdump", "bench/"}},
      {"jemalloc", "jemalloc/", {"server/"}},
      {"GoogleTest", "gtest/", {"tests/"}},
      {"GoogleTest", "gmock/", {"tests/"}},
      {"Google Benchmark", "benchmark/", {"bench/"}},
  };
  return rules;
}

// Besides these, only files and folders that begin with a dot.
inline const std::vector<std::string>& TopLevelEntries() {
  static const std::vector<std::string> entries = {
      "CMakeLists.txt", "proto", "server", "capture", "store",
      "client",         "tests", "bench",  "deploy",  "README.md"};
  return entries;
}

// A part of a file's, folder's or type's name that says nothing about what it is.
inline const std::vector<std::string>& EmptyNames() {
  static const std::vector<std::string> names = {"util",     "utils",  "common",  "manager",
                                                 "managers", "helper", "helpers", "impl",
                                                 "misc",     "base",   "stuff"};
  return names;
}

// Headers that documents name in passing although they are no file of ours.
inline const std::vector<std::string>& ForeignFileNames() {
  static const std::vector<std::string> names = {"libpq-fe.h"};
  return names;
}

inline constexpr size_t kLineCharactersMax = 120;

}  // namespace tidemark::tree
