// The one place that knows which engines can be polled.
#pragma once

#include <memory>

#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_settings.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::poll {

// Of the database that the configuration names. Does not connect. REQUIRES: config.has_poll().
std::unique_ptr<PollEngine> MakeEngine(const v1::FeedConfig& config, const PollSettings& settings);

}  // namespace tidemark::capture::poll
