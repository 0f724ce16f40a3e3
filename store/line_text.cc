#include "store/line_text.h"

#include <fmt/format.h>

#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "proto/table_name.h"
#include "proto/value_json.h"

namespace tidemark::store {
namespace {

// `,"name":value` for each column that is not absent.
void AppendJsonColumns(const v1::TableSchema& schema,
                       const google::protobuf::RepeatedPtrField<v1::Value>& values,
                       std::string* out) {
  for (int i = 0; i < values.size() && i < schema.columns_size(); ++i) {
    if (values[i].kind_case() != v1::Value::KIND_NOT_SET)
      AppendJsonColumn(schema.columns(i).name(), values[i], out);
  }
}

std::string PlainValue(const v1::Value& value) {
  if (value.kind_case() == v1::Value::KIND_NOT_SET) return "-";
  std::string text;
  AppendJsonValue(value, &text);
  return text;
}

using Values = google::protobuf::RepeatedPtrField<v1::Value>;

std::string TimeText(int64_t us) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixMicros(us), absl::UTCTimeZone());
}

std::string LsnText(uint64_t lsn) { return fmt::format("{:X}/{:X}", lsn >> 32, lsn & 0xFFFFFFFF); }

std::string OriginText(uint32_t origin) {
  switch (origin) {
    case v1::ORIGIN_SOURCE:
      return "source";
    case v1::ORIGIN_SNAPSHOT:
      return "snapshot";
    case v1::ORIGIN_RESYNC:
      return "resync";
    case v1::ORIGIN_HEALING:
      return "healing";
    default:
      return fmt::format("origin_{}", origin);
  }
}

// One line of named facts: `name value` pairs as text, members as JSON. Numbers go in as text with
// all their digits.
class Line {
 public:
  Line(std::string_view record, bool json) : json_(json) {
    if (json) {
      text_ = "{\"__record\":";
      AppendJsonString(record, &text_);
    } else {
      text_ = record;
    }
  }

  Line& String(std::string_view name, std::string_view value) {
    Name(name);
    if (json_) {
      AppendJsonString(value, &text_);
    } else {
      text_ += value;
    }
    return *this;
  }
  Line& Number(std::string_view name, uint64_t value) {
    Name(name);
    text_ += fmt::format("{}", value);
    return *this;
  }
  Line& At(std::string_view name, const std::optional<Position>& position) {
    return position ? String(name, position->Text()) : *this;
  }

  std::string Text() && {
    if (json_) text_ += '}';
    return std::move(text_);
  }

 private:
  void Name(std::string_view name) {
    if (!json_) {
      text_ += fmt::format("  {} ", name);
      return;
    }
    text_ += ',';
    AppendJsonString(name, &text_);
    text_ += ':';
  }

  const bool json_;
  std::string text_;
};

std::string TableOf(const v1::TableSchema& schema) {
  return TableNameText(schema.schema_name(), schema.table_name());
}

std::string JsonHead(const Position& position, uint64_t sequence, const v1::TableSchema& schema) {
  std::string text =
      fmt::format("\"__pos\":\"{}\",\"__seq\":{},\"__table\":", position.Text(), sequence);
  AppendJsonString(TableOf(schema), &text);
  return text;
}

std::string PlainColumns(const v1::TableSchema& schema, const Values& values) {
  std::string text;
  for (int i = 0; i < values.size() && i < schema.columns_size(); ++i) {
    text += fmt::format(" {}={}", schema.columns(i).name(), PlainValue(values[i]));
  }
  return text;
}

// The columns of a key, so that it prints like a row.
v1::TableSchema KeySchema(const v1::TableSchema& schema) {
  v1::TableSchema key;
  for (const uint32_t column : schema.key_columns()) {
    if (column < static_cast<uint32_t>(schema.columns_size())) {
      *key.add_columns() = schema.columns(static_cast<int>(column));
    }
  }
  return key;
}

void AppendJsonBefore(const v1::TableSchema& schema, const Values& before, std::string* text) {
  std::string members;
  AppendJsonColumns(schema, before, &members);
  if (members.empty()) return;
  text->append(",\"__before\":{").append(members, 1).append("}");
}

void AddPostgres(const v1::PostgresCheckpoint& postgres, Line* line) {
  line->String("system_identifier", postgres.system_identifier())
      .Number("timeline", postgres.timeline())
      .String("database", postgres.database())
      .String("slot", postgres.slot())
      .String("publication", postgres.publication())
      .String("consistent_lsn", LsnText(postgres.consistent_lsn()));
}

void AddIdentity(const v1::PostgresIdentity& identity, Line* line) {
  line->String("system_identifier", identity.system_identifier())
      .Number("timeline", identity.timeline())
      .String("database", identity.database());
}

// public.orders by updated_at up to 2026-11-30 22:04:03.123457+00 (17)
std::string PolledText(const v1::PolledTableState& table) {
  std::string text = fmt::format("{} by {}", TableNameText(table.schema_name(), table.table_name()),
                                 table.cursor_column());
  if (table.bound_cursor().empty()) {
    text += ", nothing read";
  } else {
    text += fmt::format(" up to {} ({})", table.bound_cursor(),
                        fmt::join(table.bound_key().begin(), table.bound_key().end(), ", "));
  }
  if (!table.error_reason().empty()) text += ", not polled: " + table.error_reason();
  return text;
}

void AddPoll(const v1::PollCheckpoint& poll, Line* line) {
  AddIdentity(poll.postgres(), line);
  std::string tables;
  for (const v1::PolledTableState& table : poll.tables()) {
    tables += (tables.empty() ? "" : "; ") + PolledText(table);
  }
  line->Number("polls", poll.polls())
      .String("clock", TimeText(poll.clock_us()))
      .String("polled", tables);
}

void AddChangelog(const v1::ChangelogCheckpoint& changelog, Line* line) {
  AddIdentity(changelog.postgres(), line);
  line->String("table", TableNameText(changelog.schema_name(), changelog.table_name()))
      .String("strategy", changelog.strategy())
      .String("seen", changelog.snapshot());
  if (!changelog.pulling().empty()) {
    line->String("pulling", changelog.pulling())
        .Number("told_seq", changelog.told_seq())
        .Number("told_xid", changelog.told_xid());
  }
  if (changelog.watermark_xid() != 0) line->Number("watermark_xid", changelog.watermark_xid());
  line->Number("highest_seq", changelog.highest_seq())
      .Number("transactions", changelog.transactions());
}

void AddMigration(const v1::MigrationRecord& migration, Line* line) {
  if (migration.log_generation() != 0) line->Number("log_generation", migration.log_generation());
  if (migration.phase() == v1::MIGRATION_PHASE_UNSPECIFIED) return;
  line->String("migration", v1::MigrationPhase_Name(migration.phase()))
      .String("migration_slot", migration.slot())
      .String("migration_publication", migration.publication())
      .String("migration_consistent_lsn", LsnText(migration.consistent_lsn()));
  if (!migration.message().empty()) line->String("migration_message", migration.message());
}

// What the checkpoint of an engine says of where its source is read.
void AddSource(const v1::Checkpoint& checkpoint, Line* line) {
  if (checkpoint.has_postgres()) AddPostgres(checkpoint.postgres(), line);
  if (checkpoint.has_poll()) AddPoll(checkpoint.poll(), line);
  if (checkpoint.has_changelog()) AddChangelog(checkpoint.changelog(), line);
  if (checkpoint.has_migration()) AddMigration(checkpoint.migration(), line);
}

}  // namespace

std::string FeedLine(const FeedFacts& facts, bool json) {
  Line line("feed", json);
  line.String("feed", facts.name)
      .Number("id", facts.id)
      .String("engine", facts.record.engine())
      .String("identity", std::string(absl::BytesToHexString(facts.record.identity())))
      .Number("generation", facts.record.generation())
      .String("created", TimeText(facts.record.created_us()))
      .At("snapshot", facts.snapshot)
      .At("floor", facts.floor)
      .At("last_transaction", facts.last_transaction)
      .At("head", facts.head());
  if (facts.rows) line.At("folded", facts.rows->folded);
  if (facts.floor_commit_time_us != 0) {
    line.String("floor_commit_time", TimeText(facts.floor_commit_time_us));
  }
  if (facts.checkpoint) {
    line.At("checkpoint", facts.checkpoint_position)
        .String("snapshot_phase", v1::SnapshotPhase_Name(facts.checkpoint->snapshot_phase()));
    AddSource(*facts.checkpoint, &line);
  }
  line.Number("schemas", facts.schemas.size()).Number("spooled", facts.spooled.size());
  for (const std::string& defect : facts.defects) line.String("defect", defect);
  return std::move(line).Text();
}

std::string GapLine(const FeedFacts& facts, const Gap& gap, bool json) {
  Line line("gap", json);
  line.String("feed", facts.name)
      .At("from", gap.from)
      .At("to", gap.to)
      .String("reason", gap.record.reason())
      .String("policy", v1::RecoveryPolicy_Name(gap.record.policy()))
      .String("time", TimeText(gap.record.time_us()))
      .String("detail", gap.record.detail());
  return std::move(line).Text();
}

std::string SchemaLine(const FeedFacts& facts, const v1::TableSchema& schema, bool json) {
  std::string columns;
  std::string keys;
  for (const v1::Column& column : schema.columns()) {
    columns +=
        fmt::format("{}{} {}", columns.empty() ? "" : ", ", column.name(), column.source_type());
  }
  for (const uint32_t column : schema.key_columns()) {
    if (column >= static_cast<uint32_t>(schema.columns_size())) continue;
    keys += (keys.empty() ? "" : ", ") + schema.columns(static_cast<int>(column)).name();
  }
  Line line("schema", json);
  line.String("feed", facts.name)
      .String("schema_id", fmt::format("{:016x}", schema.schema_id()))
      .String("table", TableOf(schema))
      .String("columns", columns)
      .String("key", keys)
      .String("image", v1::ImageLevel_Name(schema.image_level()));
  return std::move(line).Text();
}

std::string SchemaSinceLine(const FeedFacts& facts, const SchemaStep& step, bool json) {
  const auto schema = facts.schemas.find(step.schema_id);
  Line line("schema_since", json);
  line.String("feed", facts.name)
      .String("table", schema == facts.schemas.end() ? "" : TableOf(schema->second))
      .String("schema_id", fmt::format("{:016x}", step.schema_id))
      .At("position", step.position)
      .Number("sequence", step.sequence);
  return std::move(line).Text();
}

std::string TransactionLine(const ScannedEntry& first, bool json) {
  const v1::CommitRecord& record = first.record;
  Line line("transaction", json);
  line.At("position", first.position)
      .String("commit_time", TimeText(record.commit_time_us()))
      .String("source_transaction_id", record.source_transaction_id())
      .Number("changes", record.changes())
      .Number("bytes", record.bytes())
      .String("origin", OriginText(record.origin()));
  if (record.commit_lsn() != 0) line.String("commit_lsn", LsnText(record.commit_lsn()));
  if (record.spool_id() != 0) line.Number("spool_id", record.spool_id());
  return std::move(line).Text();
}

std::string DefectLine(const ScannedEntry& entry, bool json) {
  Line line("defect", json);
  line.String("entry", entry.Name()).String("text", entry.defect);
  return std::move(line).Text();
}

std::string ChangeLine(const Position& position, uint64_t sequence, const v1::TableSchema& schema,
                       const v1::Change& change, bool json) {
  const bool removes = change.op() == v1::OP_DELETE;
  const v1::TableSchema columns = removes ? KeySchema(schema) : schema;
  const Values& values = removes ? change.key() : change.after();
  if (!json) {
    std::string text = fmt::format("  {} {} {}{}{}", sequence, OpText(change.op()), TableOf(schema),
                                   change.key_change() ? " (change of the key)" : "",
                                   PlainColumns(columns, values));
    if (change.before_size() > 0) text += " before:" + PlainColumns(schema, change.before());
    return text;
  }
  std::string text = fmt::format("{{\"__op\":\"{}\",{}", OpText(change.op()),
                                 JsonHead(position, sequence, schema));
  if (change.key_change()) text += ",\"__key_change\":true";
  AppendJsonColumns(columns, values, &text);
  AppendJsonBefore(schema, change.before(), &text);
  return text + "}";
}

std::string RowLine(const Position& position, uint64_t sequence, const v1::TableSchema& schema,
                    const Values& values, bool json) {
  if (!json) {
    return fmt::format("{}/{} {}{}", position.Text(), sequence, TableOf(schema),
                       PlainColumns(schema, values));
  }
  std::string text = "{" + JsonHead(position, sequence, schema);
  AppendJsonColumns(schema, values, &text);
  return text + "}";
}

}  // namespace tidemark::store
