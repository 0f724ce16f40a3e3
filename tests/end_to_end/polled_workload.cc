#include "tests/end_to_end/polled_workload.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace tidemark::testing {
namespace {

// Holds the highest stamp, whatever is removed: else the source would seem to have gone back.
constexpr int kNewest = 1'000'000;

constexpr char kTables[] = R"(
create table marked (id int primary key, at timestamptz not null, v bigint not null,
                     gone boolean not null default false);
create table buried (id int primary key, at timestamptz not null, v bigint not null);
create table graves (id int not null, at timestamptz not null, n bigserial primary key);
create function bury() returns trigger language plpgsql as
  'begin insert into graves values (old.id, clock_timestamp()); return old; end';
create trigger bury after delete on buried for each row execute function bury();
create table loose (id int primary key, at timestamptz not null, v bigint not null);
create sequence numbers cache 20;
create table seqd (id int primary key, n bigint not null default nextval('numbers'),
                   v bigint not null);
create table coarse (id int, name text collate "en-x-icu", at timestamptz(0) not null,
                     v bigint not null, primary key (name, id));
create index on marked (at, id); create index on buried (at, id); create index on graves (at, id);
create index on loose (at, id); create index on seqd (n, id); create index on coarse (at, name, id);
)";

}  // namespace

PolledWorkload::PolledWorkload(const LivePostgres& postgres, std::string database, uint64_t seed,
                               int page_rows)
    : dice_(seed), tie_rows_(3 * page_rows), rows_each_(tie_rows_ + 5) {
  for (Writer& writer : writers_) {
    auto session = postgres.Connect(database);
    EXPECT_TRUE(session.ok()) << session.status();
    if (session.ok()) writer.session = *std::move(session);
    writer.skew =
        std::chrono::milliseconds(dice_.Below(2 * static_cast<int>(kSkewMax.count()) + 1)) -
        kSkewMax;
  }
  // Both ends are there in every run.
  writers_[0].skew = -kSkewMax;
  writers_[1].skew = kSkewMax;
}

std::string PolledWorkload::CreateSql() {
  std::string sql = kTables;
  for (const std::string table : {"buried", "loose"}) {
    sql += fmt::format("insert into {} values ({}, now(), 0);", table, kNewest);
  }
  return sql;
}

std::vector<std::string> PolledWorkload::Polled() {
  return {"{table: public.marked, cursor: at, deleted: gone}",
          "{table: public.buried, cursor: at, tombstones: {table: public.graves, cursor: at}}",
          "{table: public.loose, cursor: at}",
          "{table: public.seqd, cursor: n, overlap_values: 1000000}",
          "{table: public.coarse, cursor: at}"};
}

const std::vector<std::string>& PolledWorkload::Followed() {
  static const std::vector<std::string> tables = {"marked", "buried", "seqd", "coarse"};
  return tables;
}

std::string PolledWorkload::Query(const std::string& table) {
  if (table != "marked") return "select * from " + table;
  return "select id, at, v, gone::text from marked where not gone";
}

void PolledWorkload::Exec(Writer& writer, const std::string& sql) {
  const absl::Status done = writer.session->Exec(sql);
  EXPECT_TRUE(done.ok()) << done << " in " << sql;
}

int64_t PolledWorkload::Numbers(Writer& writer, int count) {
  const int64_t first = last_number_ + 1;
  last_number_ += count;
  for (int64_t number = first; number <= last_number_; ++number) writer.pending.push_back(number);
  return first;
}

std::string PolledWorkload::Stamp(const Writer& writer, const std::string& table) {
  auto skew = writer.skew;
  // A row that comes back has to be later than its tombstone, which has the database's clock.
  if (table == "buried") skew = std::max(skew, std::chrono::milliseconds(0));
  // Of a transaction that began long ago, or of now.
  const bool began = table != "buried" && dice_.OneIn(2);
  return fmt::format("{} + interval '{} ms'", began ? "now()" : "(select clock_timestamp())",
                     skew.count());
}

void PolledWorkload::End(Writer& writer, bool commit) {
  if (writer.open) Exec(writer, commit ? "commit" : "rollback");
  if (commit) committed_.insert(writer.pending.begin(), writer.pending.end());
  if (commit && !writer.pending.empty()) {
    const auto open = std::chrono::steady_clock::now() - writer.opened;
    longest_open_ = std::max(longest_open_, std::chrono::ceil<std::chrono::milliseconds>(open));
  }
  writer.pending.clear();
  writer.open = false;
}

void PolledWorkload::Write(size_t index) {
  Writer& writer = writers_[index];
  static constexpr const char* kNames[] = {"marked", "buried", "loose", "seqd", "coarse"};
  const std::string table = kNames[dice_.Below(5)];
  if (table == "loose" && dice_.OneIn(3)) {
    // Without a stamp.
    Exec(writer,
         fmt::format("update loose set v = {} where id = {}", Numbers(writer, 1), Row(index)));
    return;
  }
  const int count = dice_.OneIn(3) ? tie_rows_ : 1 + dice_.Below(2);
  // Ids of this session alone, from one of its rows on, around the end of them.
  const std::string ids = fmt::format("{} + {} * (({} + i) % {})", index, kSessions,
                                      dice_.Below(rows_each_), rows_each_);
  const std::string from = fmt::format("from generate_series(0, {}) i", count - 1);
  const std::string v = fmt::format("{} + i", Numbers(writer, count));
  const std::string stamp = Stamp(writer, table);
  if (table == "seqd") {
    Exec(writer, fmt::format("insert into seqd (id, v) select {}, {} {} on conflict (id) do update "
                             "set n = nextval('numbers'), v = excluded.v",
                             ids, v, from));
  } else if (table == "coarse") {
    Exec(writer,
         fmt::format("insert into coarse select r, (array['a','B','é','Z'])[1 + r % 4], {}, number "
                     "from (select {} as r, {} as number {}) s on conflict (name, id) do update "
                     "set at = excluded.at, v = excluded.v",
                     stamp, ids, v, from));
  } else {
    const std::string gone = table == "marked" ? (dice_.OneIn(3) ? ", true" : ", false") : "";
    Exec(writer, fmt::format("insert into {0} select {1}, {2}, {3}{4} {5} on conflict (id) do "
                             "update set at = excluded.at, v = excluded.v{6}",
                             table, ids, stamp, v, gone, from,
                             gone.empty() ? "" : ", gone = excluded.gone"));
  }
}

void PolledWorkload::Remove(size_t index, const std::string& table) {
  Writer& writer = writers_[index];
  Exec(writer, fmt::format("update {0} set at = (select max(at) from {0}), v = {1} where id = {2}; "
                           "delete from {0} where id = {3}",
                           table, Numbers(writer, 1), kNewest, Row(index)));
  End(writer, true);
}

void PolledWorkload::Step() {
  ++steps_;
  const auto now = std::chrono::steady_clock::now();
  for (Writer& writer : writers_) {
    if (writer.open && now - writer.opened > kOpenMax * 7 / 10) End(writer, true);
  }
  const auto index = static_cast<size_t>(dice_.Below(kSessions));
  Writer& writer = writers_[index];
  if (!writer.open) writer.opened = now;
  if (writer.open && dice_.OneIn(6)) return End(writer, !dice_.OneIn(4));
  if (!writer.open && dice_.OneIn(6)) return Remove(index, dice_.OneIn(2) ? "buried" : "loose");
  if (!writer.open && dice_.OneIn(3)) {
    Exec(writer, "begin");
    writer.open = true;
  }
  Write(index);
  if (!writer.open) End(writer, true);
}

void PolledWorkload::Finish() {
  for (Writer& writer : writers_) End(writer, true);
}

}  // namespace tidemark::testing
