// A handler that writes down every call as one line, and fails where it is told to.
// Thread rule: one thread at a time.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "client/feed_handler.h"
#include "proto/position.h"
#include "proto/value_json.h"

namespace tidemark::client {

class RecordingHandler : public FeedHandler {
 public:
  std::vector<std::string> calls;
  std::vector<absl::Duration> waits;
  // Called with every line; its error is returned.
  std::function<absl::Status(const std::string&)> hook = [](const std::string&) {
    return absl::OkStatus();
  };

  absl::Status OnOpened(const v1::Opened&) override { return Note("opened"); }
  absl::Status OnRow(const ChangeView& row) override { return Note("row " + Line(row)); }
  absl::Status OnRowsEnd(std::string_view cursor) override {
    return Note(fmt::format("rows end {}", cursor));
  }
  absl::Status OnRowsAgain() override { return Note("rows again"); }
  absl::Status OnTransactionBegin(const v1::Transaction& part) override {
    return Note(fmt::format("begin {}", Lsn(part.position())));
  }
  absl::Status OnChange(const ChangeView& change) override { return Note(Line(change)); }
  absl::Status OnTransactionEnd(const v1::Transaction& part) override {
    return Note(fmt::format("end {} {}", Lsn(part.position()), part.cursor()));
  }
  absl::Status OnProgress(const v1::Progress& progress) override {
    return Note(fmt::format("progress {}", progress.cursor()));
  }
  absl::Status OnGap(const v1::Gap& gap) override { return Note("gap " + gap.reason()); }
  absl::Status OnBound(const v1::Bound& bound) override {
    return Note("bound " + bound.native_position());
  }
  absl::Status OnClosing(const v1::Closing& closing) override {
    return Note("closing " + closing.reason());
  }
  void OnDisconnected(const absl::Status&, absl::Duration wait) override {
    waits.push_back(wait);
    (void)Note("disconnected");
  }

 private:
  static uint64_t Lsn(std::string_view position) {
    return Position::FromText(position)->engine_low();
  }
  static std::string Line(const ChangeView& change) {
    std::string line =
        fmt::format("{}/{} {}", Lsn(change.position()), change.sequence(), OpText(change.op()));
    for (const char* name : {"id", "owner"}) {
      const v1::Value* const value = change.Column(name);
      if (value == nullptr) continue;
      line += ' ';
      AppendJsonValue(*value, &line);
    }
    return line;
  }
  absl::Status Note(std::string call) {
    calls.push_back(std::move(call));
    return hook(calls.back());
  }
};

}  // namespace tidemark::client
