// A second session with the database, on a thread of its own, for what must not hold the stream up.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/target.h"

namespace tidemark::capture::postgres {

// One task at a time. Thread rule: one thread owns it; tasks and `done` run on its own thread. The
// session is opened with the first task, and anew after a task that failed. Ending it interrupts
// the task in progress, whose future then holds its error.
class SideSession {
 public:
  // `done` is called behind every task.
  SideSession(Target target, std::function<void()> done);
  ~SideSession();
  SideSession(const SideSession&) = delete;
  SideSession& operator=(const SideSession&) = delete;

  // REQUIRES: the future of the task before is ready.
  template <class T>
  std::future<absl::StatusOr<T>> Run(std::function<absl::StatusOr<T>(Connection*)> task) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
    std::future<absl::StatusOr<T>> result = promise->get_future();
    Post([promise, task = std::move(task)](absl::StatusOr<Connection*> session) {
      absl::StatusOr<T> outcome =
          session.ok() ? task(*session) : absl::StatusOr<T>(session.status());
      const bool good = outcome.ok();
      promise->set_value(std::move(outcome));
      return good;
    });
    return result;
  }

 private:
  // False: the session is not to be used again.
  using Task = std::function<bool(absl::StatusOr<Connection*>)>;

  void Post(Task task);
  void Work();
  absl::StatusOr<Connection*> Session();

  const Target target_;
  const std::function<void()> done_;
  Interruption interruption_;
  std::unique_ptr<Connection> session_;  // of the thread

  std::mutex mutex_;
  std::condition_variable changed_;
  Task task_;            // protected by mutex_
  bool ending_ = false;  // protected by mutex_
  std::thread thread_;
};

// Whether a result is there. False for a future that nothing was asked of.
template <class T>
bool IsReady(const std::future<T>& future) {
  return future.valid() && future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace tidemark::capture::postgres
