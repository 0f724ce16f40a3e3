#include "server/status_size.h"

#include <algorithm>

namespace tidemark {
namespace {

// In the order in which entries are left out.
enum class Weight { kGood, kBusy, kNeedsPerson };

Weight WeightOf(const v1::TableStatus& table) {
  if (table.state() == v1::TABLE_FOLLOW_STATE_FAILED || table.has_error()) {
    return Weight::kNeedsPerson;
  }
  return table.state() == v1::TABLE_FOLLOW_STATE_FOLLOWED ? Weight::kGood : Weight::kBusy;
}

Weight WeightOf(const v1::TableProblem& /*problem*/) { return Weight::kNeedsPerson; }

Weight WeightOf(const v1::TableSnapshotStatus& table) {
  return table.finished() ? Weight::kGood : Weight::kBusy;
}

Weight WeightOf(const v1::PolledTableStatus& table) {
  if (table.poison_rows() > 0) return Weight::kNeedsPerson;
  return table.late_rows() == 0 && !table.scan().running() ? Weight::kGood : Weight::kBusy;
}

// Bytes that a feed's count and the longer forms of lengths may take beside what is counted here.
constexpr size_t kFeedMarginBytes = 16;

class Fitting {
 public:
  Fitting(size_t excess, Weight weight, v1::FeedStatus* feed)
      : excess_(excess), weight_(weight), feed_(*feed) {}

  // Returns what is still too much.
  size_t Run() {
    if (excess_ == 0) return 0;
    LeaveOut(feed_.mutable_tables());
    if (feed_.has_snapshot()) LeaveOut(feed_.mutable_snapshot()->mutable_tables());
    if (feed_.has_poll()) LeaveOut(feed_.mutable_poll()->mutable_tables());
    LeaveOut(feed_.mutable_table_problems());
    feed_.set_tables_left_out(feed_.tables_left_out() + left_out_);
    return excess_;
  }

 private:
  template <typename Entries>
  void LeaveOut(Entries* entries) {
    const auto gone = std::remove_if(entries->begin(), entries->end(), [this](const auto& entry) {
      if (excess_ == 0 || WeightOf(entry) != weight_) return false;
      // With its tag and its length, which take a byte each at least.
      excess_ -= std::min(excess_, entry.ByteSizeLong() + 2);
      ++left_out_;
      return true;
    });
    entries->erase(gone, entries->end());
  }

  size_t excess_;
  const Weight weight_;
  v1::FeedStatus& feed_;
  uint32_t left_out_ = 0;
};

}  // namespace

void FitStatus(size_t bytes_max, v1::GetStatusResponse* status) {
  const size_t bytes = status->ByteSizeLong();
  if (bytes <= bytes_max) return;
  size_t excess = bytes - bytes_max + kFeedMarginBytes * status->feeds_size();
  for (const Weight weight : {Weight::kGood, Weight::kBusy, Weight::kNeedsPerson}) {
    for (v1::FeedStatus& feed : *status->mutable_feeds()) {
      excess = Fitting(excess, weight, &feed).Run();
    }
  }
}

}  // namespace tidemark
