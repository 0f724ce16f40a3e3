#include "server/config_reload.h"

#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

namespace tidemark {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

// One value in the file, though a message here.
bool IsQuantity(const FieldDescriptor& field) {
  return field.message_type()->full_name() == "google.protobuf.Duration" ||
         field.message_type()->full_name() == "tidemark.v1.ByteSize";
}

bool IsMessage(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

// What tells the entries of a list apart, whatever their order.
const FieldDescriptor& NameOf(const google::protobuf::Descriptor& entry) {
  const FieldDescriptor* const name = entry.FindFieldByName("name");
  return name != nullptr ? *name : *entry.FindFieldByName("table");
}

// Collects the keys that differ, each once, in the order of their fields.
class KeyCollector final : public MessageDifferencer::Reporter {
 public:
  using Path = std::vector<MessageDifferencer::SpecificField>;

  void ReportAdded(const Message&, const Message&, const Path& path) override { Add(path); }
  void ReportDeleted(const Message& before, const Message&, const Path& path) override {
    const FieldDescriptor& last = *path.back().field;
    if (!last.is_repeated() || !IsMessage(last)) return Add(path);
    // It has no place in the file.
    const Message& gone =
        before.GetReflection()->GetRepeatedMessage(before, &last, path.back().index);
    const Path list(path.begin(), path.end() - 1);
    Add(fmt::format("{}{}{} (without {})", KeyOf(list), list.empty() ? "" : ".", last.name(),
                    gone.GetReflection()->GetString(gone, &NameOf(*gone.GetDescriptor()))));
  }
  void ReportModified(const Message&, const Message&, const Path& path) override {
    // What differs within it is reported by itself.
    if (!IsMessage(*path.back().field)) Add(path);
  }

  std::vector<std::string> keys;

 private:
  static std::string KeyOf(const Path& path) {
    std::string key;
    for (const auto& part : path) {
      key += (key.empty() ? "" : ".") + part.field->name();
      // A list of plain values is one value.
      if (!IsMessage(*part.field) || IsQuantity(*part.field)) break;
      if (part.field->is_repeated()) key += fmt::format("[{}]", part.new_index);
    }
    return key;
  }
  void Add(const Path& path) { Add(KeyOf(path)); }
  void Add(std::string key) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
  }
};

std::vector<std::string> DifferingKeys(const v1::Config& from, const v1::Config& file) {
  KeyCollector collector;
  MessageDifferencer differencer;
  for (const FieldDescriptor* list :
       {v1::Config::descriptor()->FindFieldByNumber(v1::Config::kFeedsFieldNumber),
        v1::PollConfig::descriptor()->FindFieldByNumber(v1::PollConfig::kTablesFieldNumber)}) {
    differencer.TreatAsMap(list, &NameOf(*list->message_type()));
  }
  differencer.ReportDifferencesTo(&collector);
  differencer.Compare(from, file);
  return std::move(collector.keys);
}

// Whether its tables are a list of patterns that a running source takes. Those of a poll are not,
// also where the feed is to be moved to the log.
bool TakesTables(const v1::FeedConfig& feed) { return feed.has_postgres() && !feed.has_poll(); }

v1::Config TakeOver(const v1::Config& running, const v1::Config& file,
                    const std::set<std::string>& stopped) {
  v1::Config taken = running;
  taken.mutable_log()->set_level(file.log().level());
  *taken.mutable_store()->mutable_retention() = file.store().retention();
  for (v1::FeedConfig& feed : *taken.mutable_feeds()) {
    const auto wanted =
        std::find_if(file.feeds().begin(), file.feeds().end(),
                     [&](const v1::FeedConfig& other) { return other.name() == feed.name(); });
    if (wanted == file.feeds().end()) continue;
    *feed.mutable_retention() = wanted->retention();
    if (!TakesTables(feed) || !TakesTables(*wanted) || stopped.count(feed.name()) > 0) continue;
    *feed.mutable_postgres()->mutable_tables() = wanted->postgres().tables();
  }
  return taken;
}

}  // namespace

ReloadPlan PlanReload(const v1::Config& running, const v1::Config& file,
                      const std::set<std::string>& stopped) {
  ReloadPlan plan;
  plan.running = TakeOver(running, file, stopped);
  plan.with_restart = DifferingKeys(plan.running, file);
  for (std::string& key : DifferingKeys(running, file)) {
    const bool left = std::find(plan.with_restart.begin(), plan.with_restart.end(), key) !=
                      plan.with_restart.end();
    if (!left) plan.applied.push_back(std::move(key));
  }
  return plan;
}

std::vector<std::string> StandingOrders(const std::vector<TablePattern>& configured,
                                        const std::vector<v1::TableState>& states) {
  std::vector<std::string> orders;
  for (const v1::TableState& state : states) {
    const bool named =
        std::any_of(configured.begin(), configured.end(), [&](const TablePattern& pattern) {
          return pattern.Matches(state.schema_name(), state.table_name());
        });
    const std::string table = TableNameText(state.schema_name(), state.table_name());
    if (named && state.choice() == v1::TABLE_CHOICE_REMOVED) orders.push_back(table + " removed");
    if (!named && state.choice() == v1::TABLE_CHOICE_ADDED) orders.push_back(table + " added");
  }
  return orders;
}

}  // namespace tidemark
