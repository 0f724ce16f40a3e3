// TableKeeper: orders, looks at the catalog, and what is to be done next.
#include "capture/postgres/table_keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

std::string Text(const TableKeeper::Name& name) { return TableNameText(name.first, name.second); }

TableKeeper::Name NameOf(const SourceTable& table) { return {table.schema, table.table}; }

bool IsReading(const v1::TableState& state) { return state.has_reading(); }

// Errors that a look finds, and that the next one may find gone.
bool SeenInCatalog(std::string_view error) {
  return error == reason::kSourceSetting || error == reason::kPublicationMissing ||
         error == reason::kSourceTableMissing;
}

// A reading that did not come to its end may have put rows into the feed.
bool RowsTold(const v1::TableState& state) {
  return state.has_reading() && (!state.reading().fresh() || state.reading().rows_read() > 0);
}

// It was named once, and nothing came of it.
bool NeverCaptured(const v1::TableState& state) {
  return !state.followed() && state.choice() == v1::TABLE_CHOICE_UNSPECIFIED &&
         state.error_reason().empty();
}

v1::TableStatus StatusOf(const TableKeeper::Name& name, const v1::TableState& state, bool wanted,
                         uint64_t rows_estimated) {
  v1::TableStatus status;
  status.set_table(Text(name));
  status.set_state(wanted ? v1::TABLE_FOLLOW_STATE_FOLLOWED : v1::TABLE_FOLLOW_STATE_REMOVED);
  if (wanted && (!state.followed() || !state.has_postgres())) {
    status.set_state(v1::TABLE_FOLLOW_STATE_READING);
    status.set_detail("it is new to the feed, and waits to be looked at");
  }
  if (IsReading(state)) {
    status.set_state(v1::TABLE_FOLLOW_STATE_READING);
    status.set_detail(state.reading().cause());
    if (!state.reading().waits_for().empty()) {
      status.set_detail(status.detail() + "; " + state.reading().waits_for());
    }
    status.set_rows_read(state.reading().rows_read());
    status.set_rows_estimated(rows_estimated);
    status.set_changes_made(state.reading().changes_made());
  } else {
    status.set_rows_read(state.last_rows_read());
    status.set_changes_made(state.last_changes_made());
    if (status.state() != v1::TABLE_FOLLOW_STATE_READING) status.set_detail(state.last_cause());
  }
  if (!state.error_reason().empty()) {
    status.set_state(v1::TABLE_FOLLOW_STATE_FAILED);
    status.mutable_error()->set_reason(state.error_reason());
    status.mutable_error()->set_message(state.error_message());
    status.mutable_error()->mutable_at()->set_seconds(state.error_us() / 1'000'000);
  }
  return status;
}

// Empty, or what it waits for.
absl::StatusOr<std::string> Publish(Connection* sql, const std::string& publication,
                                    const SourceTable& table) {
  const absl::Time deadline = absl::Now() + kChunkTimeout;
  const std::string doing = fmt::format("adding {} to the publication", table.Text());
  absl::Status done =
      sql->Query(BeginWaitingSql(kLockWaitLong, "BEGIN READ WRITE") +
                     fmt::format("ALTER PUBLICATION {} ADD TABLE {}; COMMIT",
                                 QuoteIdentifier(publication), table.InPublicationSql()),
                 doing, deadline)
          .status();
  if (done.ok()) return std::string();
  if (!IsLockTimeout(done)) return done;
  done = sql->Query("ROLLBACK", doing, deadline).status();
  if (!done.ok()) return done;
  return WhoLocks(sql, std::span(&table.oid, 1), LockUse::kPublish, deadline);
}

}  // namespace

TableKeeper::TableKeeper(const Lent& lent, Target target, std::function<void()> wake)
    : lent_(lent),
      target_(std::move(target)),
      wake_(std::move(wake)),
      session_(std::make_unique<SideSession>(target_, wake_)),
      comparison_(lent.known, &window_),
      verifier_({lent.known, &comparison_, lent.selection, lent.states, &tables_}) {
  WatchMoves();
  lent_.streaming->Observe(&window_, &moved_, &unseen_, lent_.known);
  lent_.desk->SetStreaming(true);
  // A start with another configuration: noted before the first change that is left out.
  LeaveUnwanted();
}

TableKeeper::~TableKeeper() {
  lent_.desk->SetStreaming(false);
  lent_.streaming->Observe(nullptr, nullptr, nullptr, nullptr);
}

v1::TableState& TableKeeper::StateOf(const Name& name) {
  v1::TableState& state = (*lent_.states)[name];
  state.set_schema_name(name.first);
  state.set_table_name(name.second);
  return state;
}

absl::Status TableKeeper::Step(const Position& head, absl::Time now, CaptureBatch* batch,
                               std::optional<Position>* made) {
  if (!failure_.ok()) return failure_;
  if (std::exchange(commits_seen_, window_.commits()) != window_.commits()) {
    chunk_size_.Committed(now);
  }
  if (told_at_) chunk_size_.Took(now - *std::exchange(told_at_, std::nullopt), now);
  if (applied_look_ && lent_.streaming->proved() >= applied_look_->at) {
    if (!awaits_look_) seen_ = applied_look_->began;
    applied_look_.reset();
    report_due_ = true;
  }
  // Not before it is durable what the tables are said to be.
  if (report_due_) Report();
  TakeOrders(now);
  if (!lent_.streaming->in_transaction()) TakeTables(now);
  // What it announces may be gone again at the next look that is due.
  if (lent_.streaming->shapes().TakeNews()) LookSoon(now);
  Collect(now);
  const bool quiet = !lent_.streaming->in_transaction();
  if (whole_) StepWhole(head, now, batch, made);
  if (!*made && MayTell() && chunk_size_.told_due() <= now) {
    const absl::Status status = chunk_verifies_ ? Verify(head, now) : Emit(head, now, batch, made);
    if (!status.ok()) return status;
  }
  WatchMoves();
  Start(quiet, now);
  if (report_due_ && dirty_.empty()) Report();
  AddStates(batch);
  return absl::OkStatus();
}

// Which rows moved is in memory only: should it be lost, the table is read from its beginning on.
void TableKeeper::AddStates(CaptureBatch* batch) {
  for (const auto& [root, part] : lent_.streaming->shapes().TakeParts()) {
    const auto state = lent_.states->find(root);
    if (state == lent_.states->end() || !state->second.has_postgres()) continue;
    if (!NotePart(part, state->second.mutable_postgres())) continue;
    Touch(root);
    LookSoon(absl::Now());
  }
  for (const Name& name : moved_.TakeNews()) Touch(name);
  for (const Name& name : dirty_) {
    v1::TableState& state = batch->table_states.emplace_back(lent_.states->at(name));
    if (!moved_.Has(name)) continue;
    state.mutable_reading()->clear_after_key();
    state.mutable_reading()->clear_rows_read();
  }
  report_due_ |= !dirty_.empty();
  dirty_.clear();
}

void TableKeeper::Report() {
  report_due_ = false;
  std::vector<v1::TableStatus> statuses;
  for (const auto& [name, state] : *lent_.states) {
    const bool wanted = lent_.selection->Wants(name.first, name.second);
    if (!wanted && NeverCaptured(state)) continue;
    const auto table = tables_.find(name);
    statuses.push_back(
        StatusOf(name, state, wanted, table == tables_.end() ? 0 : table->second.rows_estimated));
    if (whole_ && whole_->name == name)
      statuses.back().set_rows_read(whole_->reading->rows_taken());
  }
  lent_.desk->SetStatuses(std::move(statuses), seen_);
}

void TableKeeper::LookSoon(absl::Time now) {
  awaits_look_ = true;
  look_overtaken_ = look_.valid();
  look_due_ = std::min(look_due_, std::max(now, look_began_ + kLookGapMin));
}

std::optional<Lsn> TableKeeper::fence() const {
  std::optional<Lsn> fence;
  if (read_) fence = read_->fence;
  if (whole_ && whole_->rows) fence = std::max(fence.value_or(0), whole_->begun->fence);
  return fence;
}

bool TableKeeper::Ready(Lsn proved, absl::Time now) const {
  if (IsReady(look_) || IsReady(publish_) || IsReady(chunk_) || next_due() <= now) return true;
  if (applied_look_ && proved >= applied_look_->at) return true;
  return WholeReady(proved);
}

bool TableKeeper::MayTell() const {
  return read_ && lent_.streaming->proved() >= read_->fence && !lent_.streaming->in_transaction();
}

absl::Time TableKeeper::next_due() const {
  if (MayTell()) return chunk_size_.told_due();
  if (look_.valid() || publish_.valid() || chunk_.valid() || read_) return absl::InfiniteFuture();
  absl::Time due = std::min(look_due_, verifier_.next_due());
  for (const auto& [name, time] : not_before_) due = std::min(due, time);
  return due;
}

// ---- Orders.

void TableKeeper::TakeOrders(absl::Time now) {
  for (const TableOrder& order : lent_.desk->Take()) {
    Order(order);
    LookAgain(now);
  }
}

void TableKeeper::LookAgain(absl::Time now) {
  look_due_ = now;
  look_outdated_ = look_.valid();
}

void TableKeeper::TakeTables(absl::Time now) {
  std::optional<std::vector<TablePattern>> tables = lent_.desk->TakeTables();
  if (!tables) return;
  lent_.selection->Configure(*std::move(tables));
  lent_.streaming->SelectionChanged();
  LeaveUnwanted();
  LookAgain(now);
  report_due_ = true;
}

void TableKeeper::LeaveUnwanted() {
  for (auto& [name, state] : *lent_.states) {
    if (lent_.selection->Wants(name.first, name.second)) continue;
    // One that is emptied was left already.
    if (state.reading().only_empties()) continue;
    if (!state.has_postgres() && !state.has_reading() && state.error_reason().empty()) continue;
    not_before_.erase(name);
    whole_attempts_.erase(name);
    state.clear_error_reason();
    state.clear_error_message();
    Leave(&state);
  }
}

void TableKeeper::Leave(v1::TableState* state) {
  // Taken in again, it is not new.
  if (RowsTold(*state)) state->set_followed(true);
  state->clear_reading();
  // Seen anew, as a table that nobody knew.
  state->clear_postgres();
  Touch({state->schema_name(), state->table_name()});
}

void TableKeeper::Order(const TableOrder& order) {
  const Name name(order.schema, order.table);
  v1::TableState& state = StateOf(name);
  Touch(name);
  not_before_.erase(name);
  whole_attempts_.erase(name);
  state.clear_error_reason();
  state.clear_error_message();
  if (order.kind == TableOrder::Kind::kRead && !lent_.selection->Wants(name.first, name.second)) {
    return Fail(&state, reason::kTableUnknown,
                fmt::format("the feed does not capture {}; add it first", Text(name)));
  }
  if (order.kind == TableOrder::Kind::kRead) {
    Movement movement{Movement::Kind::kRead, "it was asked for"};
    BeginReading(&state, movement, !state.followed(), 0);
    return;
  }
  const bool adds = order.kind == TableOrder::Kind::kAdd;
  state.set_choice(adds ? v1::TABLE_CHOICE_ADDED : v1::TABLE_CHOICE_REMOVED);
  lent_.selection->Choose(order.schema, order.table, state.choice());
  lent_.streaming->SelectionChanged();
  Leave(&state);
  if (!adds && order.truncate) {
    state.mutable_reading()->set_cause("it was removed");
    state.mutable_reading()->set_empties(true);
    state.mutable_reading()->set_only_empties(true);
    state.mutable_reading()->set_started_us(absl::ToUnixMicros(absl::Now()));
  }
}

// ---- What the side session brought.

void TableKeeper::Collect(absl::Time now) {
  if (IsReady(look_)) CollectLook(now);
  if (IsReady(publish_)) {
    absl::StatusOr<std::string> published = publish_.get();
    const SourceTable table = std::move(to_publish_.front());
    const Name name = NameOf(table);
    to_publish_.erase(to_publish_.begin());
    look_due_ = now;
    if (published.ok() && !published->empty()) {
      WaitFor(name, *published);
      not_before_[name] = now + kPublishRetryPeriod;
    } else if (!published.ok()) {
      Fail(&StateOf(name), reason::kPublicationMissing,
           fmt::format("table {} is not published, and adding it failed: {}; run ALTER PUBLICATION "
                       "{} ADD TABLE {}",
                       Text(name), std::string(published.status().message()),
                       QuoteIdentifier(lent_.publication), table.InPublicationSql()));
      not_before_[name] = now + kTableErrorRetryPeriod;
    }
  }
  if (!IsReady(chunk_)) return;
  absl::StatusOr<TableChunk> chunk = chunk_.get();
  if (chunk.ok()) {
    read_ = *std::move(chunk);
    read_at_ = now;
    fence_ahead_ = true;
  } else {
    ChunkFailed(chunk.status(), now);
  }
}

void TableKeeper::CollectLook(absl::Time now) {
  absl::StatusOr<CatalogSighting> sighting = look_.get();
  const bool overtaken = std::exchange(look_overtaken_, false);
  if (std::exchange(look_outdated_, false)) return;
  look_due_ = now + (sighting.ok() ? lent_.look_period : kTableRetryPeriod);
  lent_.desk->SetLookFailure(sighting.status(), now);
  if (!sighting.ok()) return;
  ApplySighting(*sighting, now);
  // One that the stream has not come to yet is not put off by those that follow.
  if (!applied_look_) applied_look_ = {look_began_, sighting->at};
  // It may have seen the catalog as it was before what the stream announced since.
  if (overtaken) LookSoon(now);
  report_due_ = true;
}

void TableKeeper::ChunkFailed(const absl::Status& status, absl::Time now) {
  Unwatch();
  if (chunk_verifies_) {
    if (absl::IsAborted(status)) look_due_ = now;
    return verifier_.Failed(status, now);
  }
  AskAgain();
  if (absl::IsFailedPrecondition(status) && ReasonOf(status).empty()) keyless_.insert(chunk_of_);
  ReadingFailed(chunk_of_, status, now);
}

void TableKeeper::ReadingFailed(const Name& name, const absl::Status& status, absl::Time now) {
  v1::TableState& state = StateOf(name);
  const std::string reason = ReasonOf(status);
  not_before_[name] = now + kTableRetryPeriod;
  if (absl::IsAborted(status) || (absl::IsFailedPrecondition(status) && reason.empty())) {
    // It is another one than was looked at.
    look_due_ = now;
  } else if (IsRetried(status) || reason.empty()) {
    // It may have been removed meanwhile.
    if (state.has_reading()) {
      WaitFor(name, fmt::format("trying again: {}", std::string(status.message())));
    }
  } else {
    Fail(&state, reason, std::string(status.message()));
    not_before_[name] = now + kTableErrorRetryPeriod;
  }
}

void TableKeeper::Fail(v1::TableState* state, std::string_view reason, const std::string& message) {
  if (state->error_reason() == reason && state->error_message() == message) return;
  state->set_error_reason(std::string(reason));
  state->set_error_message(message);
  state->set_error_us(absl::ToUnixMicros(absl::Now()));
  Touch({state->schema_name(), state->table_name()});
}

// ---- Looks.

void TableKeeper::ApplySighting(const CatalogSighting& sighting, absl::Time now) {
  // The first look at a feed whose snapshot was taken before tables had states.
  const bool baseline = lent_.states->empty();
  awaits_look_ = false;
  ++looks_;
  tables_.clear();
  to_publish_.clear();
  for (const TableSighting& seen : sighting.tables) {
    const Name name = NameOf(seen.table);
    const auto state = lent_.states->find(name);
    const bool empties = state != lent_.states->end() && state->second.reading().only_empties();
    if (!lent_.selection->Wants(name.first, name.second) && !empties) continue;
    tables_[name] = seen.table;
    if (!empties) ApplyTable(seen, sighting, baseline);
  }
  FailMissing(sighting.unlogged);
  std::erase_if(to_publish_, [&](const SourceTable& table) {
    const auto wait = not_before_.find(NameOf(table));
    return wait != not_before_.end() && wait->second > now;
  });
}

void TableKeeper::FailMissing(std::span<const UnloggedRelation> unlogged) {
  // What is named in full and fits nothing was misspelt, or is to be created.
  for (const TablePattern& pattern : lent_.selection->configured()) {
    if (pattern.exact()) StateOf({pattern.schema(), pattern.table()});
  }
  for (auto& [name, state] : *lent_.states) {
    if (tables_.count(name) > 0) continue;
    if (state.reading().only_empties()) state.clear_reading(), Touch(name);
    // Whatever is done to it is not seen until it is back.
    if (state.postgres().published()) state.mutable_postgres()->set_published(false), Touch(name);
    if (!lent_.selection->Wants(name.first, name.second)) continue;
    const auto other = std::find_if(unlogged.begin(), unlogged.end(), [&](const auto& relation) {
      return Name(relation.schema, relation.table) == name;
    });
    if (other != unlogged.end()) {
      Fail(&state, reason::kSourceSetting,
           fmt::format("{}, and its changes are in no log: they are not captured{}; {}",
                       UnloggedText(*other),
                       state.followed() ? ", and what is stored of it is what it held before" : "",
                       UnloggedAdvice(*other)));
      continue;
    }
    if (!state.followed()) {
      Fail(&state, reason::kSourceTableMissing,
           fmt::format("the database has no table {}; create it, or take it out of the feed's "
                       "tables (letters count: a name with capitals is put in double quotes)",
                       Text(name)));
      continue;
    }
    Fail(&state, reason::kSourceTableMissing,
         fmt::format("the database has no table {} any more: it was dropped or renamed. What is "
                     "stored of it is what it held before. Create it again, or remove it from the "
                     "feed",
                     Text(name)));
  }
}

void TableKeeper::ApplyTable(const TableSighting& seen, const CatalogSighting& sighting,
                             bool baseline) {
  const Name name = NameOf(seen.table);
  v1::TableState& state = StateOf(name);
  const bool known = state.has_postgres();
  const v1::PostgresTableFacts before = state.postgres();
  v1::PostgresTableFacts facts = seen.facts;
  AddPastColumns(before, &facts);
  std::string meanwhile = lent_.streaming->shapes().Seen(name, facts, sighting.at);
  // What a connection before this one read of the stream is forgotten.
  if (looks_ == 1 && meanwhile.empty()) meanwhile = AlteredUnseen(before, facts);
  facts.set_unlogged_part(!seen.table.unlogged_parts.empty());
  const bool sent = facts.published() && !facts.unlogged_part() && sighting.publishes_all &&
                    (!seen.table.partitioned || sighting.via_root);
  // When it is sent again, that is a movement.
  facts.set_published(sent);
  if (before.SerializeAsString() != facts.SerializeAsString()) {
    *state.mutable_postgres() = facts;
    Touch(name);
  }
  if (!sent) {
    const std::string cause = !known                        ? "it is new to the feed"
                              : before.oid() != facts.oid() ? "it was replaced by another table"
                                                            : "it left the publication";
    return NotPublished(seen, sighting, cause, &state);
  }
  // Others are of its reading, and stay until that goes on.
  if (SeenInCatalog(state.error_reason())) {
    state.clear_error_reason();
    state.clear_error_message();
    Touch(name);
  }
  if (!known && baseline) {
    state.set_followed(true);
    return;
  }
  if (!known) {
    BeginReading(&state, {Movement::Kind::kRead, "it is new to the feed", true}, !state.followed(),
                 sighting.xmax);
    lent_.streaming->shapes().ReadsAgain(name, sighting.at);
    return;
  }
  Movement movement = MovementBetween(before, facts);
  if (movement.kind == Movement::Kind::kNone && !meanwhile.empty()) {
    movement = {Movement::Kind::kRead, meanwhile};
  }
  if (movement.kind != Movement::Kind::kNone) {
    if (!before.published() && state.has_reading()) movement.cause = state.reading().cause();
    BeginReading(&state, movement, !state.followed(), sighting.xmax);
    lent_.streaming->shapes().ReadsAgain(name, sighting.at);
  }
}

void TableKeeper::NotPublished(const TableSighting& seen, const CatalogSighting& sighting,
                               const std::string& cause, v1::TableState* state) {
  if (absl::Status logged = CheckLogged(seen.table); !logged.ok()) {
    return Fail(state, ReasonOf(logged), std::string(logged.message()));
  }
  const std::string name = QuoteIdentifier(lent_.publication);
  const std::string table = QuoteTable(seen.table.schema, seen.table.table);
  const bool missing = sighting.publication_exists && !seen.facts.published();
  const std::string_view run = sighting.standby ? "run on the primary" : "run";
  if (missing && sighting.publication_is_ours && seen.table.HasIdentity()) {
    // What is committed until it is published is not in the stream.
    if (!state->has_reading()) {
      BeginReading(state, {Movement::Kind::kRead, cause}, !state->followed(), 0);
    }
    to_publish_.push_back(seen.table);
    return;
  }
  if (missing && !seen.table.HasIdentity()) {
    return Fail(state, reason::kSourceSetting,
                fmt::format("table {} has no primary key and no replica identity: once it is "
                            "published, PostgreSQL refuses its updates and deletes. Add a primary "
                            "key, or {} ALTER TABLE {} REPLICA IDENTITY FULL; its changes are not "
                            "captured until then",
                            seen.table.Text(), run, table));
  }
  if (seen.table.partitioned && !sighting.via_root) {
    return Fail(state, reason::kSourceSetting,
                fmt::format("publication {} sends the partitions of {} under their own names; {} "
                            "ALTER PUBLICATION {} SET (publish_via_partition_root = true)",
                            lent_.publication, seen.table.Text(), run, name));
  }
  if (!missing && sighting.publication_exists) {
    return Fail(state, reason::kSourceSetting,
                fmt::format("publication {} leaves operations out; {} ALTER PUBLICATION {} SET "
                            "(publish = 'insert, update, delete, truncate')",
                            lent_.publication, run, name));
  }
  Fail(state, reason::kPublicationMissing,
       fmt::format("publication {} does not hold {}: its changes are not captured; {} ALTER "
                   "PUBLICATION {} ADD TABLE {}",
                   lent_.publication, seen.table.Text(), run, name, seen.table.InPublicationSql()));
}

void TableKeeper::BeginReading(v1::TableState* state, const Movement& movement, bool fresh,
                               uint64_t xmax) {
  const Name name(state->schema_name(), state->table_name());
  const uint64_t barrier =
      std::max<uint64_t>(movement.waits_for_writers ? xmax : 0, state->reading().barrier_xid());
  // A table that is emptied first and was not emptied yet still has to be.
  const bool empties = movement.kind == Movement::Kind::kReload || state->reading().empties();
  // Rows that an earlier reading told may be gone: what is known is looked through in the end.
  const bool nothing_known = fresh && !RowsTold(*state);
  v1::TableReading* reading = state->mutable_reading();
  reading->Clear();
  reading->set_cause(movement.cause);
  reading->set_fresh(nothing_known);
  reading->set_empties(empties);
  reading->set_barrier_xid(barrier);
  reading->set_started_us(absl::ToUnixMicros(absl::Now()));
  if (known_keys_of_ == name) known_keys_of_ = {};
  look_of_readings_ = looks_;
  // What is being read now says nothing of what came later.
  if (window_.open() && chunk_of_ == name) window_.Spoil();
  if (whole_ && whole_->name == name) whole_->overtaken_by = movement.cause;
  Touch(name);
}

// ---- What to do next.

void TableKeeper::Start(bool quiet, absl::Time now) {
  if (look_.valid() || publish_.valid() || chunk_.valid() || read_) return;
  if (!to_publish_.empty()) {
    publish_ = session_->Run<std::string>(
        [publication = lent_.publication, table = to_publish_.front()](Connection* sql) {
          return Publish(sql, publication, table);
        });
    return;
  }
  if (look_due_ <= now) {
    look_began_ = absl::Now();
    look_ = session_->Run<CatalogSighting>([publication = lent_.publication,
                                            patterns = lent_.selection->patterns(),
                                            empties = EmptyingPatterns()](Connection* sql) {
      std::vector<TablePattern> all = patterns;
      all.insert(all.end(), empties.begin(), empties.end());
      return LookAtTables(sql, publication, all, absl::Now() + kChunkTimeout);
    });
    return;
  }
  if (quiet) {
    StartWhole(now);
    StartChunk(now);
  }
  std::erase_if(not_before_, [now](const auto& entry) { return entry.second <= now; });
  verifier_.Passed(now);
}

std::vector<TablePattern> TableKeeper::EmptyingPatterns() const {
  std::vector<TablePattern> patterns;
  for (const auto& [name, state] : *lent_.states) {
    if (!state.reading().only_empties()) continue;
    if (auto exact = TablePattern::Parse(Text(name)); exact.ok()) {
      patterns.push_back(*std::move(exact));
    }
  }
  return patterns;
}

}  // namespace tidemark::capture::postgres
