// The lines that log_dump.h prints, each from plain values. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "store/feed_facts.h"
#include "store/log_scan.h"
#include "store/rows_reader.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::store {

std::string FeedLine(const FeedFacts& facts, bool json);
std::string GapLine(const FeedFacts& facts, const Gap& gap, bool json);
std::string SchemaLine(const FeedFacts& facts, const v1::TableSchema& schema, bool json);
std::string SchemaSinceLine(const FeedFacts& facts, const SchemaStep& step, bool json);
std::string TransactionLine(const ScannedEntry& first, bool json);
std::string DefectLine(const ScannedEntry& entry, bool json);
std::string ChangeLine(const Position& position, uint64_t sequence, const v1::TableSchema& schema,
                       const v1::Change& change, bool json);
std::string RowLine(const Position& position, uint64_t sequence, const v1::TableSchema& schema,
                    const google::protobuf::RepeatedPtrField<v1::Value>& values, bool json);

}  // namespace tidemark::store
