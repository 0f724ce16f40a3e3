#include "server/cursor_calls.h"

#include <algorithm>
#include <vector>

#include "proto/reason.h"
#include "proto/timestamps.h"
#include "server/limits.h"
#include "server/reader_request.h"
#include "server/request_error.h"
#include "server/tail_hub.h"

namespace tidemark {
namespace {

absl::StatusOr<Feed*> ReadyFeed(const FeedDirectory& feeds, const std::string& name) {
  auto feed = feeds.Find(name);
  if (!feed.ok()) return feed;
  if (auto status = CheckReady(**feed); !status.ok()) return status;
  return feed;
}

v1::CursorStatus StatusOf(const absl::Status& reach) {
  if (reach.ok()) return v1::CURSOR_STATUS_VALID;
  const std::string reason = ReasonOf(reach);
  if (reason == reason::kCursorExpired) return v1::CURSOR_STATUS_EXPIRED;
  if (reason == reason::kCursorAhead) return v1::CURSOR_STATUS_AHEAD;
  return v1::CURSOR_STATUS_DIVERGED;
}

void AddNotes(const v1::TableSchema& schema, const std::vector<v1::LostTable>& lost,
              v1::TableDescription* table) {
  const auto problem = std::find_if(lost.begin(), lost.end(), [&](const v1::LostTable& other) {
    return other.schema_name() == schema.schema_name() && other.table_name() == schema.table_name();
  });
  if (problem != lost.end()) table->add_notes(problem->message());
  if (schema.key_columns().empty()) {
    table->add_notes(
        schema.image_level() == v1::IMAGE_LEVEL_FULL
            ? "no usable key: no current rows are kept, and rows that are equal are told apart by "
              "nothing; an update or a delete carries the whole row before it, and means one of "
              "its equals"
            : "no usable key: no current rows are kept");
  } else if (!table->rows_kept() && problem == lost.end()) {
    table->add_notes("current rows are switched off by the configuration");
  }
  if (schema.image_level() == v1::IMAGE_LEVEL_NONE) {
    table->add_notes(
        "the source gives no identity of updated and deleted rows, and refuses both; ALTER TABLE … "
        "REPLICA IDENTITY FULL, or a primary key, allows them");
  }
}

// What the source says of itself stands first: it holds for every change of the table.
void AddSourceNotes(const capture::SourceDescription& source, const v1::TableSchema& schema,
                    v1::TableDescription* table) {
  for (const std::string& note : source.notes) table->add_notes(note);
  for (const capture::TableNote& note : source.table_notes) {
    if (note.schema_name == schema.schema_name() && note.table_name == schema.table_name()) {
      table->add_notes(note.text);
    }
  }
}

}  // namespace

absl::Status ResolveCursor(const FeedDirectory& feeds, const v1::ResolveCursorRequest& request,
                           v1::ResolveCursorResponse* response) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  auto feed = ReadyFeed(feeds, request.feed());
  Position boundary;
  switch (request.point_case()) {
    case v1::ResolveCursorRequest::kTime:
      return UnsupportedFeature("point.time");
    case v1::ResolveCursorRequest::kNativePosition:
      return UnsupportedFeature("point.native_position");
    case v1::ResolveCursorRequest::POINT_NOT_SET:
      return InvalidRequest("point", "say which: earliest or latest");
    case v1::ResolveCursorRequest::kEarliest:
      if (!feed.ok()) return feed.status();
      boundary = (*feed)->store().floor();
      break;
    case v1::ResolveCursorRequest::kLatest:
      if (!feed.ok()) return feed.status();
      boundary = (*feed)->tail().head();
      break;
  }
  response->set_cursor((*feed)->Cursor(boundary));
  response->set_position(boundary.Text());
  response->set_native_position((*feed)->source().NativeText(boundary));
  return absl::OkStatus();
}

absl::Status InspectCursor(const FeedDirectory& feeds, const v1::InspectCursorRequest& request,
                           v1::InspectCursorResponse* response) {
  auto feed = ReadyFeed(feeds, request.feed());
  if (!feed.ok()) return feed.status();
  const auto boundary = (*feed)->DecodeCursor(request.cursor());
  if (!boundary.ok()) return boundary.status();
  const store::FeedStore& store = (*feed)->store();
  response->set_status(StatusOf(CheckReachable(**feed, *boundary)));
  response->set_position(boundary->Text());
  response->set_native_position((*feed)->source().NativeText(*boundary));
  response->set_generation(boundary->generation());
  const uint64_t behind = store.BytesBehind(*boundary);
  const uint64_t held = store.log_bytes();
  response->set_behind_bytes(behind);
  response->set_headroom_bytes(held > behind ? held - behind : 0);
  const auto record = store.RecordAtOrBefore(*boundary);
  if (!record.ok()) return record.status();
  if (*record && (*record)->first == *boundary) {
    *response->mutable_commit_time() =
        ToTimestamp(absl::FromUnixMicros((*record)->second.commit_time_us()));
  }
  return absl::OkStatus();
}

absl::Status DescribeFeed(const FeedDirectory& feeds, const v1::DescribeFeedRequest& request,
                          v1::DescribeFeedResponse* response) {
  auto feed = feeds.Find(request.feed());
  if (!feed.ok()) return feed.status();
  const store::FeedStore& store = (*feed)->store();
  const capture::SourceDescription source = (*feed)->source().Describe();
  response->set_feed((*feed)->name());
  response->set_engine(source.engine);
  response->set_completeness(source.completeness);
  response->set_generation(store.generation());
  const std::vector<v1::LostTable> lost = store.LostTables();
  for (v1::TableSchema& schema : store.CurrentSchemas()) {
    v1::TableDescription* table = response->add_tables();
    table->set_rows_kept(store.KeepsRows(schema));
    AddSourceNotes(source, schema, table);
    AddNotes(schema, lost, table);
    *table->mutable_table_schema() = std::move(schema);
  }
  if (response->ByteSizeLong() <= limits::message_bytes_max) return absl::OkStatus();
  response->Clear();
  return UnsupportedFeature("a description of so many tables in one message");
}

}  // namespace tidemark
