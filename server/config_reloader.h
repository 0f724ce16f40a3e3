// Reads the configuration file again when it is asked to (SIGHUP).
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "server/server.h"

namespace tidemark {

// Thread rule: made, asked, stopped and destroyed by one thread. Reads on a thread of its own: a
// file that does not answer (a pipe, a file system that is gone) holds up nobody. The server is
// lent.
class ConfigReloader {
 public:
  ConfigReloader(std::string file, Server& server);
  // Waits for a file that is still being read.
  ~ConfigReloader();
  ConfigReloader(const ConfigReloader&) = delete;
  ConfigReloader& operator=(const ConfigReloader&) = delete;

  // Returns at once. While the file is read already, it is read once more afterwards, however often
  // this was asked for.
  void Request();
  // Nothing is changed from now on. False when the file did not let go of the thread in time: then
  // the only way on is to end the process.
  bool Stop();

 private:
  void Run();

  const std::string file_;
  Server& server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool requested_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace tidemark
