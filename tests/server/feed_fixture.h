// One feed on a real store, with a scripted source.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "server/feed.h"
#include "server/limits.h"
#include "server/tail_hub.h"
#include "store/store.h"
#include "tests/server/scripted_source.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {

// Thread rule: made, reopened and destroyed by one thread.
class FeedFixture {
 public:
  explicit FeedFixture(bool replays_exactly = true, rocksdb::Env* env = nullptr,
                       std::string stop_at = "")
      : replays_exactly_(replays_exactly), env_(env), stop_at_(std::move(stop_at)) {
    Open();
  }
  // As the configuration says it from the next Open on.
  void SetStopAt(std::string stop_at) { stop_at_ = std::move(stop_at); }
  void SetRecovery(std::string recovery) { recovery_ = std::move(recovery); }

  // A new life of the server: a new source and a new hub on the store as it is on disk.
  void Reopen() {
    Close();
    Open();
  }
  void Close() {
    feed_.reset();
    store_.reset();
  }
  void Open() {
    store::StoreOptions options;
    options.path = (scratch_ / "store").string();
    options.env = env_;
    auto store = store::Store::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    auto cursors = store::CursorCodec::Open((scratch_ / "keys").string());
    ASSERT_TRUE(cursors.ok()) << cursors.status();
    cursors_ = std::make_unique<store::CursorCodec>(*std::move(cursors));
    auto opened = store_->OpenFeed("shop", "scripted");
    ASSERT_TRUE(opened.ok()) << opened.status();
    (*opened)->SetRowsPolicy([](const v1::TableSchema&) { return true; });

    Feed::Parts parts;
    parts.config.set_name("shop");
    parts.config.set_stop_at(stop_at_);
    parts.config.set_recovery(recovery_);
    parts.store = *opened;
    parts.cursors = cursors_.get();
    auto source = std::make_unique<ScriptedSource>(replays_exactly_);
    source_ = source.get();
    parts.source = std::move(source);
    parts.tail = std::make_unique<TailHub>([](const Position& at) { return at.Text(); },
                                           limits::ring_bytes_max);
    parts.tail->Start((*opened)->head());
    feed_ = std::make_unique<Feed>(std::move(parts));
  }

  Feed& feed() { return *feed_; }
  ScriptedSource& source() { return *source_; }
  store::Store& store() { return *store_; }

  // Positions in the log, as engine numbers, each with its changes: "5:2" for two changes at 5.
  std::vector<std::string> Log() const {
    std::vector<std::string> log;
    auto reader = feed_->store().NewLogReader(feed_->store().floor());
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok()) return log;
    store::StoredRun run;
    for (;;) {
      const auto more = (*reader)->Next(&run);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) return log;
      if (!run.first_of_transaction) continue;
      log.push_back(std::to_string(run.position.engine_low()) + ":" +
                    std::to_string(run.record->changes()));
    }
  }

 private:
  const bool replays_exactly_;
  rocksdb::Env* const env_;
  std::string stop_at_;
  std::string recovery_;
  ScratchDir scratch_{"feed"};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<store::CursorCodec> cursors_;
  ScriptedSource* source_ = nullptr;
  std::unique_ptr<Feed> feed_;
};

}  // namespace tidemark::testing
