// A file that says nothing until the test writes it: whoever reads it waits for as long as the test
// likes. Thread rule: one thread at a time.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/testing/wait_until.h"

namespace tidemark::testing {

class NamedPipe {
 public:
  explicit NamedPipe(std::filesystem::path path) : path_(std::move(path)) {
    EXPECT_EQ(mkfifo(path_.c_str(), 0666), 0);
  }
  ~NamedPipe() { Close(); }
  NamedPipe(const NamedPipe&) = delete;
  NamedPipe& operator=(const NamedPipe&) = delete;

  // From when it succeeds on, somebody reads, and waits for Write.
  ::testing::AssertionResult WaitForReader() {
    return WaitUntil(
        [this] {
          descriptor_ = open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
          return descriptor_ >= 0;
        },
        std::chrono::seconds(60), [this] { return "nobody reads " + path_.string(); });
  }
  // All of it; the reader comes to the end. REQUIRES: a text that a pipe holds.
  void Write(const std::string& text) {
    EXPECT_EQ(write(descriptor_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    Close();
  }

 private:
  void Close() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

  const std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace tidemark::testing
