// Points of the ingest loop at which a crash matters.
#pragma once

namespace tidemark {

// Each is reached when its step is done.
enum class IngestStep {
  kRead,
  kAppended,
  kPublished,
  kSynced,
  kConfirmed,
  // The feed is being dropped: that is noted; it is done at the source.
  kDropNoted,
  kSourceDropped,
};

}  // namespace tidemark
