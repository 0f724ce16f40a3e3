#include "server/delivery_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "absl/time/clock.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

class CountingTask final : public DeliveryTask {
 public:
  explicit CountingTask(std::function<absl::Time(int run)> again) : again_(std::move(again)) {}
  std::atomic<int> runs{0};
  std::atomic<bool> overlapped{false};

 private:
  absl::Time RunStep(absl::Time /*now*/) override {
    if (running_.exchange(true)) overlapped = true;
    const absl::Time again = again_(++runs);
    running_ = false;
    return again;
  }
  const std::function<absl::Time(int)> again_;
  std::atomic<bool> running_{false};
};

bool Reaches(const CountingTask& task, int runs) {
  return testing::WaitUntil([&] { return task.runs >= runs; }, std::chrono::seconds(10));
}

TEST(DeliveryPoolTest, RunsAStepForAWake) {
  DeliveryPool pool(2);
  auto task = std::make_shared<CountingTask>([](int) { return absl::InfiniteFuture(); });
  pool.Wake(task);
  EXPECT_TRUE(Reaches(*task, 1));
  pool.Wake(task);
  EXPECT_TRUE(Reaches(*task, 2));
}

TEST(DeliveryPoolTest, ComesBackAtOnceAndAtATime) {
  DeliveryPool pool(2);
  auto task = std::make_shared<CountingTask>([](int run) {
    if (run < 10) return absl::InfinitePast();
    return run < 13 ? absl::Now() + absl::Milliseconds(5) : absl::InfiniteFuture();
  });
  pool.Wake(task);
  EXPECT_TRUE(Reaches(*task, 13));
}

TEST(DeliveryPoolTest, ATaskNeverRunsTwiceAtOnceAndNoWakeIsLost) {
  DeliveryPool pool(4);
  std::atomic<int> wanted{0};
  std::atomic<int> seen{0};
  auto task = std::make_shared<CountingTask>([&](int) {
    seen = wanted.load();
    return absl::InfiniteFuture();
  });
  for (int i = 0; i < 20'000; ++i) {
    ++wanted;
    pool.Wake(task);
  }
  EXPECT_TRUE(testing::WaitUntil([&] { return seen == 20'000; }, std::chrono::seconds(10)));
  EXPECT_FALSE(task->overlapped);
}

TEST(DeliveryPoolTest, HoldsNoTaskThatWaitsForNothing) {
  DeliveryPool pool(1);
  auto task = std::make_shared<CountingTask>([](int) { return absl::InfiniteFuture(); });
  pool.Wake(task);
  EXPECT_TRUE(Reaches(*task, 1));
  EXPECT_TRUE(testing::WaitUntil([&] { return task.use_count() == 1; }, std::chrono::seconds(10)));
}

TEST(DeliveryPoolTest, StopsWithTasksWaiting) {
  auto task = std::make_shared<CountingTask>([](int) { return absl::Now() + absl::Hours(1); });
  {
    DeliveryPool pool(2);
    pool.Wake(task);
    EXPECT_TRUE(Reaches(*task, 1));
    pool.Stop();
    pool.Wake(task);
  }
  EXPECT_EQ(task.use_count(), 1);
  EXPECT_EQ(task->runs, 1);
}

}  // namespace
}  // namespace tidemark
