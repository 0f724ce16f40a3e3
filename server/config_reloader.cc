#include "server/config_reloader.h"

#include <chrono>
#include <utility>

#include "server/config.h"
#include "server/limits.h"

namespace tidemark {

ConfigReloader::ConfigReloader(std::string file, Server& server)
    : file_(std::move(file)), server_(server), thread_([this] { Run(); }) {}

ConfigReloader::~ConfigReloader() {
  Stop();
  thread_.join();
}

void ConfigReloader::Request() {
  std::lock_guard lock(mutex_);
  requested_ = true;
  changed_.notify_all();
}

bool ConfigReloader::Stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, std::chrono::milliseconds(limits::config_read_end_max_ms),
                           [this] { return ended_; });
}

void ConfigReloader::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return requested_ || stopping_; });
    requested_ = false;
    if (stopping_) break;
    lock.unlock();
    const absl::StatusOr<v1::Config> config = LoadConfig(file_);
    lock.lock();
    // Under the lock, so that nothing changes behind Stop; it waits for no source.
    if (!stopping_) server_.Reload(config);
  }
  ended_ = true;
  changed_.notify_all();
}

}  // namespace tidemark
