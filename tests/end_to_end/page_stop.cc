#include "tests/end_to_end/page_stop.h"

#include <utility>

namespace tidemark::testing {
namespace {

// As the engine of polls writes them (capture/poll/).
constexpr std::string_view kBegin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
constexpr std::string_view kPage = "COPY (";
// Byte 'Q', and a length of four bytes.
constexpr size_t kHeaderBytes = 5;

// A statement begins a piece: none is sent before the answer to the one before. What does not fit
// into one piece goes on in another, which is no statement.
std::string_view StatementIn(std::string_view said) {
  return said.starts_with('Q') && said.size() > kHeaderBytes ? said.substr(kHeaderBytes)
                                                             : std::string_view();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageStop>> PageStop::Start(uint16_t postgres_port) {
  std::unique_ptr<PageStop> stop(new PageStop());
  auto relay = TcpRelay::Start(postgres_port,
                               [at = stop.get()](std::string_view said) { return at->Pass(said); });
  if (!relay.ok()) return relay.status();
  stop->relay_ = *std::move(relay);
  return stop;
}

PageStop::~PageStop() {
  Release();
  relay_.reset();
}

void PageStop::HoldBefore(int page) {
  std::lock_guard lock(mutex_);
  hold_at_ = page;
}

bool PageStop::held() const {
  std::lock_guard lock(mutex_);
  return held_;
}

void PageStop::Release() {
  {
    std::lock_guard lock(mutex_);
    hold_at_ = 0;
    held_ = false;
  }
  changed_.notify_all();
}

bool PageStop::Pass(std::string_view said) {
  const std::string_view statement = StatementIn(said);
  std::unique_lock lock(mutex_);
  if (statement.starts_with(kBegin)) pages_ = 0;
  if (!statement.starts_with(kPage) || ++pages_ != hold_at_) return true;
  hold_at_ = 0;
  held_ = true;
  changed_.wait(lock, [this] { return !held_; });
  return false;
}

}  // namespace tidemark::testing
