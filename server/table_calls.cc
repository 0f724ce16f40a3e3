#include "server/table_calls.h"

#include <fmt/format.h>

#include <string>

#include "proto/table_name.h"
#include "server/reader_request.h"
#include "server/request_error.h"

namespace tidemark {
namespace {

using capture::TableOrder;

absl::StatusOr<TableOrder> OrderOf(std::string_view field, const std::string& name,
                                   TableOrder::Kind kind) {
  const absl::StatusOr<TablePattern> pattern = TablePattern::Parse(name);
  if (!pattern.ok()) return InvalidRequest(field, std::string(pattern.status().message()));
  if (!pattern->exact()) {
    return InvalidRequest(field, fmt::format("{} stands for many tables; name one", name));
  }
  return TableOrder{.kind = kind, .schema = pattern->schema(), .table = pattern->table()};
}

}  // namespace

absl::StatusOr<std::vector<TableOrder>> OrdersOf(const v1::AddTableRequest& request) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  auto order = OrderOf("table", request.table(), TableOrder::Kind::kAdd);
  if (!order.ok()) return order.status();
  return std::vector<TableOrder>{*std::move(order)};
}

absl::StatusOr<std::vector<TableOrder>> OrdersOf(const v1::RemoveTableRequest& request) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  auto order = OrderOf("table", request.table(), TableOrder::Kind::kRemove);
  if (!order.ok()) return order.status();
  order->truncate = request.truncate();
  return std::vector<TableOrder>{*std::move(order)};
}

absl::StatusOr<std::vector<TableOrder>> OrdersOf(const v1::StartSnapshotRequest& request) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  if (request.tables().empty()) return InvalidRequest("tables", "name at least one table");
  std::vector<TableOrder> orders;
  for (const std::string& name : request.tables()) {
    auto order = OrderOf("tables", name, TableOrder::Kind::kRead);
    if (!order.ok()) return order.status();
    orders.push_back(*std::move(order));
  }
  return orders;
}

absl::Status GiveOrders(const FeedDirectory& feeds, const std::string& name,
                        const absl::StatusOr<std::vector<TableOrder>>& orders) {
  if (!orders.ok()) return orders.status();
  const absl::StatusOr<Feed*> feed = feeds.Find(name);
  if (!feed.ok()) return feed.status();
  if (auto status = CheckReady(**feed); !status.ok()) return status;
  for (const TableOrder& order : *orders) {
    if (auto status = (*feed)->source().OrderTable(order); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tidemark
