// The status of the server as Prometheus metrics. Nothing is counted twice: every scrape reads the
// status report.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/status_report.h"

namespace prometheus {
class Collectable;
class Exposer;
struct MetricFamily;
}  // namespace prometheus

namespace tidemark {

// Pure; the families are in the order of server/README.md.
std::vector<prometheus::MetricFamily> MetricsOf(const v1::GetStatusResponse& status);
// Text exposition format.
std::string MetricsText(const v1::GetStatusResponse& status);

// Serves GET /metrics over HTTP while it lives. Thread rule: made and destroyed by one thread; the
// report is lent.
class MetricsEndpoint {
 public:
  // FailedPrecondition when the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(const std::string& address,
                                                                 const StatusReport& report);
  ~MetricsEndpoint();

 private:
  MetricsEndpoint();

  std::shared_ptr<prometheus::Collectable> collectable_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace tidemark
