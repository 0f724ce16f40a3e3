#include "tests/end_to_end/status_clock.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

namespace tidemark::testing {
namespace {

constexpr int kPeriodMs = 10;
constexpr std::chrono::seconds kCallDeadline{30};

std::shared_ptr<grpc::Channel> OwnChannel(const std::string& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

StatusClock::StatusClock(const std::string& server)
    : status_thread_([this, server] { Run(server, false, &status_calls_); }),
      control_thread_([this, server] { Run(server, true, &control_calls_); }) {}

void StatusClock::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (status_thread_.joinable()) status_thread_.join();
  if (control_thread_.joinable()) control_thread_.join();
}

v1::GetStatusResponse StatusClock::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

void StatusClock::Run(const std::string& server, bool control, std::vector<Call>* calls) {
  const auto stub = v1::FeedAdmin::NewStub(OwnChannel(server));
  v1::GetStatusRequest request;
  if (control) request.set_feed("no-such-feed");
  while (true) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallDeadline);
    // The first call connects.
    context.set_wait_for_ready(calls->empty());
    v1::GetStatusResponse response;
    Call call{.begin = Clock::now()};
    const grpc::Status status = stub->GetStatus(&context, request, &response);
    call.took = std::chrono::duration_cast<Milliseconds>(Clock::now() - call.begin);
    const auto wanted = control ? grpc::StatusCode::NOT_FOUND : grpc::StatusCode::OK;
    if (status.error_code() != wanted) call.error = "failed: " + status.error_message();
    calls->push_back(call);
    {
      std::lock_guard lock(mutex_);
      if (!control && status.ok()) last_ = response;
      if (stopping_) return;
    }
    poll(nullptr, 0, kPeriodMs);
  }
}

std::vector<std::string> StatusClock::Late(Milliseconds bound) const {
  std::vector<std::string> late;
  // Not the first, which connects.
  for (size_t i = 1; i < status_calls_.size(); ++i) {
    const Call& call = status_calls_[i];
    if (!call.error.empty()) late.push_back(call.error);
    if (call.took <= bound) continue;
    const bool machine =
        std::any_of(control_calls_.begin(), control_calls_.end(), [&](const Call& control) {
          return control.begin < call.begin + call.took &&
                 control.begin + control.took > call.begin && control.took > call.took / 2;
        });
    if (!machine) late.push_back(fmt::format("{} ms", call.took.count()));
  }
  return late;
}

StatusClock::Milliseconds StatusClock::Slowest(const std::vector<Call>& calls) {
  Milliseconds slowest{};
  for (size_t i = 1; i < calls.size(); ++i) slowest = std::max(slowest, calls[i].took);
  return slowest;
}

std::string StatusClock::Summary() const {
  std::vector<Milliseconds> took;
  for (const Call& call : status_calls_) took.push_back(call.took);
  std::nth_element(took.begin(), took.begin() + static_cast<long>(took.size() / 2), took.end());
  return fmt::format(
      "{} answers, half of them within {} ms, the slowest {} ms; control: the slowest {} ms",
      took.size(), took[took.size() / 2].count(), Slowest(status_calls_).count(),
      Slowest(control_calls_).count());
}

}  // namespace tidemark::testing
