#include "server/config_reload.h"

#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "server/config.h"

namespace tidemark {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Feed(const std::string& name, const std::string& more = "") {
  return "  - {name: " + name + ", postgres: {host: /h, database: d, user: u" + more + "}}\n";
}

v1::Config Parsed(const std::string& feeds, const std::string& top = "") {
  const auto config = ParseConfig(top + "store: {path: /s}\nfeeds:\n" + feeds, "t.yaml",
                                  [](const std::string&) { return std::nullopt; });
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(v1::Config());
}

std::vector<std::string> TablesOf(const v1::Config& config, int feed) {
  const auto& tables = config.feeds(feed).postgres().tables();
  return {tables.begin(), tables.end()};
}

TEST(ConfigReload, ASameFileChangesNothing) {
  const v1::Config config = Parsed(Feed("a") + Feed("b"));
  const ReloadPlan plan =
      PlanReload(config, Parsed(Feed("b") + Feed("a", ", tables: [public.*]")), {});
  EXPECT_THAT(plan.applied, IsEmpty());
  EXPECT_THAT(plan.with_restart, IsEmpty()) << "defaults are filled in, and order means nothing";
  EXPECT_EQ(plan.running.SerializeAsString(), config.SerializeAsString());
}

TEST(ConfigReload, TablesRetentionAndLogLevelAreTakenOver) {
  const v1::Config running = Parsed(Feed("a", ", tables: [public.x]") + Feed("b"));
  v1::Config file =
      Parsed(Feed("b") + Feed("a", ", tables: [public.x, public.y]"), "log: {level: debug}\n");
  file.mutable_store()->mutable_retention()->mutable_age()->set_seconds(1);
  file.mutable_feeds(0)->mutable_retention()->mutable_bytes()->set_bytes(2);
  const ReloadPlan plan = PlanReload(running, file, {});
  EXPECT_THAT(plan.applied,
              ::testing::UnorderedElementsAre("store.retention.age", "feeds[0].retention.bytes",
                                              "feeds[1].postgres.tables", "log.level"))
      << "by their place in the file";
  EXPECT_THAT(plan.with_restart, IsEmpty());
  EXPECT_EQ(plan.running.feeds(0).name(), "a") << "feeds stay where they are";
  EXPECT_THAT(TablesOf(plan.running, 0), ElementsAre("public.x", "public.y"));
  EXPECT_EQ(plan.running.feeds(1).retention().bytes().bytes(), 2u);
  EXPECT_EQ(plan.running.log().level(), "debug");
}

TEST(ConfigReload, AStoppedFeedTakesNoTables) {
  const v1::Config running = Parsed(Feed("a") + Feed("b"));
  const v1::Config file =
      Parsed(Feed("a", ", tables: [public.x]") + Feed("b", ", tables: [public.x]"));
  const ReloadPlan plan = PlanReload(running, file, {"b"});
  EXPECT_THAT(plan.applied, ElementsAre("feeds[0].postgres.tables"));
  EXPECT_THAT(plan.with_restart, ElementsAre("feeds[1].postgres.tables"));
  EXPECT_THAT(TablesOf(plan.running, 1), ElementsAre("public.*"));
}

TEST(ConfigReload, FeedsComeAndGoWithARestart) {
  const v1::Config running = Parsed(Feed("a") + Feed("b"));
  const ReloadPlan plan = PlanReload(running, Parsed(Feed("c") + Feed("b", ", port: 1")), {});
  EXPECT_THAT(plan.applied, IsEmpty());
  EXPECT_THAT(plan.with_restart, ::testing::UnorderedElementsAre("feeds[0]", "feeds (without a)",
                                                                 "feeds[1].postgres.port"));
  EXPECT_EQ(plan.running.SerializeAsString(), running.SerializeAsString());
}

TEST(ConfigReload, NoValueIsNamed) {
  const v1::Config running = Parsed(Feed("a", ", password: hunter2"));
  const ReloadPlan plan = PlanReload(running, Parsed(Feed("a", ", password: swordfish")), {});
  EXPECT_THAT(plan.with_restart, ElementsAre("feeds[0].postgres.password"));
}

bool IsQuantity(const FieldDescriptor& field) {
  const std::string& type = field.message_type()->full_name();
  return type == "google.protobuf.Duration" || type == "tidemark.v1.ByteSize";
}

bool IsSection(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !IsQuantity(field);
}

// Gives it every section that a file can have, and each list of sections an entry.
void Complete(Message* message) {
  const auto& reflection = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message->GetDescriptor()->field(i);
    if (!IsSection(field)) continue;
    if (field.is_repeated()) {
      if (reflection.FieldSize(*message, &field) == 0) reflection.AddMessage(message, &field);
      Complete(reflection.MutableRepeatedMessage(message, &field, 0));
    } else {
      Complete(reflection.MutableMessage(message, &field));
    }
  }
}

bool IsThere(const Message& message, const FieldDescriptor& section) {
  return section.is_repeated() ? message.GetReflection()->FieldSize(message, &section) > 0
                               : message.GetReflection()->HasField(message, &section);
}

// Calls `visit` with the key of every value in the sections that the file has, and the file with
// another value there.
void ForEachKey(Message* message, const std::string& path,
                const std::function<void(const std::string& key)>& visit) {
  const auto& reflection = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message->GetDescriptor()->field(i);
    std::string key = path + (path.empty() ? "" : ".") + field.name();
    const std::unique_ptr<Message> before(message->New());
    before->CopyFrom(*message);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      if (field.is_repeated()) {
        reflection.AddString(message, &field, "other");
      } else {
        reflection.SetString(message, &field, "other");
      }
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      reflection.SetBool(message, &field, !reflection.GetBool(*message, &field));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      reflection.SetUInt32(message, &field, 77);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
      reflection.SetUInt64(message, &field, 77);
    } else if (field.message_type()->full_name() == "google.protobuf.Duration") {
      google::protobuf::Duration other;
      other.set_seconds(77);
      other.set_nanos(77);
      reflection.MutableMessage(message, &field)->CopyFrom(other);
    } else if (field.message_type()->full_name() == "tidemark.v1.ByteSize") {
      v1::ByteSize other;
      other.set_bytes(77);
      reflection.MutableMessage(message, &field)->CopyFrom(other);
    } else {
      if (!IsThere(*message, field)) continue;
      ForEachKey(field.is_repeated() ? reflection.MutableRepeatedMessage(message, &field, 0)
                                     : reflection.MutableMessage(message, &field),
                 key + (field.is_repeated() ? "[0]" : ""), visit);
      continue;
    }
    visit(key);
    message->CopyFrom(*before);
  }
}

// Changes one key after the other; returns those that were applied, having seen that all others
// were named. `renamed`: keys that make another feed or table of it, with what is named then.
std::vector<std::string> AppliedKeys(
    const v1::Config& running, const std::map<std::string, std::vector<std::string>>& renamed) {
  v1::Config file = running;
  std::vector<std::string> applied;
  ForEachKey(&file, "", [&](const std::string& key) {
    const ReloadPlan plan = PlanReload(running, file, {});
    if (const auto names = renamed.find(key); names != renamed.end()) {
      EXPECT_THAT(plan.with_restart, ::testing::UnorderedElementsAreArray(names->second));
    } else if (plan.with_restart.empty()) {
      EXPECT_THAT(plan.applied, ElementsAre(key));
      EXPECT_EQ(plan.running.SerializeAsString(), file.SerializeAsString()) << key;
      applied.push_back(key);
    } else {
      EXPECT_THAT(plan.with_restart, ElementsAre(key));
      EXPECT_THAT(plan.applied, IsEmpty()) << key;
      EXPECT_EQ(plan.running.SerializeAsString(), running.SerializeAsString()) << key;
    }
  });
  return applied;
}

TEST(ConfigReload, EveryKeyIsAppliedOrNamed) {
  EXPECT_THAT(
      AppliedKeys(Parsed(Feed("a")), {{"feeds[0].name", {"feeds[0]", "feeds (without a)"}}}),
      ElementsAre("store.retention.age", "store.retention.bytes", "feeds[0].postgres.tables",
                  "feeds[0].retention.age", "feeds[0].retention.bytes", "log.level"));
}

// Also of one that is added to the configuration later. A feed that is polled takes no tables.
TEST(ConfigReload, EveryKeyOfEveryEngineIsAppliedOrNamed) {
  v1::Config running = Parsed(Feed("a"));
  running.mutable_feeds(0)->mutable_poll()->add_tables()->set_table("public.t");
  Complete(&running);
  EXPECT_THAT(
      AppliedKeys(running,
                  {{"feeds[0].name", {"feeds[0]", "feeds (without a)"}},
                   {"feeds[0].poll.tables[0].table",
                    {"feeds[0].poll.tables[0]", "feeds[0].poll.tables (without public.t)"}}}),
      ElementsAre("store.retention.age", "store.retention.bytes", "feeds[0].retention.age",
                  "feeds[0].retention.bytes", "log.level"));
}

std::string PolledFeed(const std::string& tables, const std::string& more = "") {
  return "  - {name: a, poll: {postgres: {host: /h, database: d, user: u}, tables: [" + tables +
         "]}" + more + "}\n";
}

TEST(ConfigReload, PolledTablesComeAndGoWithARestart) {
  const std::string x = "{table: public.x, cursor: c}";
  const std::string y = "{table: public.y, cursor: c}";
  const v1::Config running = Parsed(PolledFeed(x));
  const ReloadPlan plan = PlanReload(
      running, Parsed(PolledFeed(y + ", {table: public.x, cursor: d}", ", retention: {age: 1d}")),
      {});
  EXPECT_THAT(plan.applied, ElementsAre("feeds[0].retention.age"));
  EXPECT_THAT(plan.with_restart, ::testing::UnorderedElementsAre("feeds[0].poll.tables[0]",
                                                                 "feeds[0].poll.tables[1].cursor"));
  EXPECT_THAT(PlanReload(Parsed(PolledFeed(x + ", " + y)), Parsed(PolledFeed(y)), {}).with_restart,
              ElementsAre("feeds[0].poll.tables (without public.x)"));
  EXPECT_THAT(PlanReload(Parsed(PolledFeed(x + ", " + y)), Parsed(PolledFeed(y + ", " + x)), {})
                  .with_restart,
              IsEmpty())
      << "their order means nothing";
}

// The log of a feed that is to be moved is not read yet.
TEST(ConfigReload, TablesOfAFeedThatIsToBeMovedTakeEffectWithARestart) {
  const std::string polled = "{table: public.x, cursor: c}";
  const std::string log = ", postgres: {host: /h, database: d, user: u, tables: [";
  const ReloadPlan plan = PlanReload(Parsed(PolledFeed(polled, log + "public.x]}")),
                                     Parsed(PolledFeed(polled, log + "public.x, public.y]}")), {});
  EXPECT_THAT(plan.applied, IsEmpty());
  EXPECT_THAT(plan.with_restart, ElementsAre("feeds[0].postgres.tables"));
}

TEST(ConfigReload, OrdersThatStandAgainstTheListAreSaid) {
  std::vector<v1::TableState> states;
  const auto add = [&](const std::string& table, v1::TableChoice choice) {
    v1::TableState& state = states.emplace_back();
    state.set_schema_name("public");
    state.set_table_name(table);
    state.set_choice(choice);
  };
  add("a", v1::TABLE_CHOICE_REMOVED);
  add("b", v1::TABLE_CHOICE_ADDED);
  add("c", v1::TABLE_CHOICE_UNSPECIFIED);
  add("X", v1::TABLE_CHOICE_REMOVED);
  add("y", v1::TABLE_CHOICE_ADDED);
  const std::vector<TablePattern> list = {*TablePattern::Parse("public.?")};
  EXPECT_THAT(StandingOrders(list, states),
              ElementsAre("public.a removed", "public.\"X\" removed"));
  EXPECT_THAT(StandingOrders({*TablePattern::Parse("public.a")}, states),
              ElementsAre("public.a removed", "public.b added", "public.y added"));
}

}  // namespace
}  // namespace tidemark
