// TableVerifier: what is compared, and what is to be read next.
#include "capture/postgres/table_verifier.h"

#include <fmt/format.h>

#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/key_text.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture::postgres {
namespace {

std::string Text(const TableVerifier::Name& name) { return TableNameText(name.first, name.second); }

absl::Status Refused(std::string_view reason, const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason, message);
}

}  // namespace

TableVerifier::~TableVerifier() {
  if (order_) End(VerificationCutOff());
}

void TableVerifier::Begin(VerifyOrder order) {
  subject_.reset();
  left_.clear();
  due_ = absl::InfinitePast();
  order_ = std::move(order);
  absl::StatusOr<std::deque<Name>> selected = Select(order_->tables);
  if (!selected.ok()) return End(selected.status());
  left_ = *std::move(selected);
}

absl::StatusOr<std::deque<TableVerifier::Name>> TableVerifier::Select(
    const std::vector<TablePattern>& patterns) const {
  std::deque<Name> names;
  std::vector<bool> found(patterns.size());
  for (const auto& [name, state] : *lent_.states) {
    const bool wanted = lent_.selection->Wants(name.first, name.second);
    bool named = patterns.empty() && wanted;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (!patterns[i].Matches(name.first, name.second)) continue;
      found[i] = true;
      named = named || wanted || patterns[i].exact();
    }
    if (named) names.push_back(name);
  }
  if (absl::Status checked = CheckSelected(patterns, found, !names.empty()); !checked.ok()) {
    return checked;
  }
  return names;
}

absl::Status TableVerifier::Refusal(const Name& name) const {
  if (!lent_.selection->Wants(name.first, name.second)) {
    return Refused(reason::kTableUnknown,
                   fmt::format("the feed captures {} no longer; add it first", Text(name)));
  }
  const auto state = lent_.states->find(name);
  if (state == lent_.states->end() || lent_.tables->count(name) == 0) {
    return Refused(reason::kSourceTableMissing,
                   fmt::format("the database has no table {} any more", Text(name)));
  }
  if (state->second.error_reason().empty()) return absl::OkStatus();
  return Refused(state->second.error_reason(), state->second.error_message());
}

absl::StatusOr<std::optional<ChunkOrder>> TableVerifier::Next(size_t rows_max, absl::Time now) {
  asked_.clear();
  looks_.clear();
  while (order_) {
    if (!order_->sink->Wanted()) {
      End(absl::CancelledError("nobody listens any more"));
      break;
    }
    if (due_ > now || !order_->sink->HasRoom()) break;
    if (!subject_) {
      if (left_.empty()) {
        End(absl::OkStatus());
        break;
      }
      subject_ = Subject();
      subject_->name = left_.front();
      left_.pop_front();
    }
    if (const absl::Status refusal = Refusal(subject_->name); !refusal.ok()) {
      EndTable(refusal);
      continue;
    }
    const v1::TableState& state = lent_.states->at(subject_->name);
    if (state.has_reading() || !state.postgres().published()) {
      TellWaiting(
          state.has_reading()
              ? fmt::format("it is being read ({}), and is compared then", state.reading().cause())
              : "it is being added to the publication, and is compared then");
      break;
    }
    auto next = NextOfTable(rows_max);
    if (!next.ok() || *next) return next;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<ChunkOrder>> TableVerifier::NextOfTable(size_t rows_max) {
  if (absl::Status refilled = RefillKeys(); !refilled.ok()) return refilled;
  if (subject_->pass_at_end && subject_->again.empty()) {
    EndPass();
    return std::nullopt;
  }
  ChunkOrder order{.table = lent_.tables->at(subject_->name), .rows_max = rows_max};
  order.whole_rows = subject_->pass == Pass::kRows;
  if (subject_->pass == Pass::kShape) {
    order.rows_max = 0;
  } else if (subject_->pass_at_end || subject_->again.size() >= kKeysAskedMax) {
    AskAgain(&order);
  } else if (subject_->pass == Pass::kRows) {
    order.after_key = subject_->after_key;
  } else {
    AskKnown(&order);
  }
  return order;
}

absl::Status TableVerifier::RefillKeys() {
  if (subject_->pass != Pass::kKeys || subject_->pass_at_end || !subject_->keys.empty()) {
    return absl::OkStatus();
  }
  auto keys =
      LoadKnownKeys(*lent_.known, subject_->relation.schema, subject_->keys_from, InputText);
  if (!keys.ok()) return keys.status();
  subject_->keys = *std::move(keys);
  subject_->pass_at_end = subject_->keys.empty();
  if (!subject_->keys.empty()) subject_->keys_from = KeyBehind(subject_->keys.back().key);
  return absl::OkStatus();
}

void TableVerifier::AskAgain(ChunkOrder* order) {
  for (auto& again = subject_->again; !again.empty() && asked_.size() < kKeysAskedMax;) {
    order->keys.push_back(again.front().key.texts);
    looks_[again.front().key.key] = again.front().looks;
    asked_.push_back(std::move(again.front().key));
    again.pop_front();
  }
}

void TableVerifier::AskKnown(ChunkOrder* order) {
  for (auto& keys = subject_->keys; !keys.empty() && asked_.size() < kKeysAskedMax;) {
    order->keys.push_back(keys.front().texts);
    asked_.push_back(std::move(keys.front()));
    keys.pop_front();
  }
}

void TableVerifier::EndPass() {
  if (subject_->pass == Pass::kKeys) return EndTable(absl::OkStatus());
  subject_->pass = Pass::kKeys;
  subject_->pass_at_end = false;
}

void TableVerifier::TellWaiting(const std::string& what) {
  if (std::exchange(subject_->told_waiting, true)) return;
  v1::VerifyResponse waits;
  waits.set_table(Text(subject_->name));
  waits.set_rows_compared(subject_->totals.rows_compared());
  waits.set_waits_for(what);
  order_->sink->Put(std::move(waits));
}

void TableVerifier::EndTable(const absl::Status& status) {
  v1::VerifyResponse last =
      EndOfTable(Text(subject_->name), std::move(subject_->totals), status, absl::Now());
  subject_.reset();
  order_->sink->Put(std::move(last));
}

void TableVerifier::End(const absl::Status& status) {
  const VerifyOrder order = *std::exchange(order_, std::nullopt);
  subject_.reset();
  left_.clear();
  order.sink->End(status);
}

}  // namespace tidemark::capture::postgres
