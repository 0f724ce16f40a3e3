#include "store/log_sample.h"

#include "store/key_format.h"

namespace tidemark::store {

std::string LogSample::Encode() const {
  std::string value;
  AppendBig64(&value, static_cast<uint64_t>(newest_commit_time_us));
  AppendBig64(&value, log_bytes);
  AppendBig64(&value, transactions);
  return value;
}

std::optional<LogSample> LogSample::Decode(std::string_view value) {
  if (value.size() != 16 && value.size() != 24) return std::nullopt;
  return LogSample{static_cast<int64_t>(ReadBig64(value.data())), ReadBig64(value.data() + 8),
                   value.size() == 24 ? ReadBig64(value.data() + 16) : 0};
}

}  // namespace tidemark::store
