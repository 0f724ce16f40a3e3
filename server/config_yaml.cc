#include "server/config_yaml.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "proto/timestamps.h"
#include "server/yaml_tree.h"

namespace tidemark {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// What stands in a message may be shown in an error; what stands in a secret may not.
bool IsSecret(const FieldDescriptor& field) { return field.name() == "password"; }

std::string Join(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

std::vector<std::string> FieldNames(const Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  return names;
}

class MessageFiller {
 public:
  MessageFiller(const EnvironmentLookup& environment, ParsedConfig* parsed)
      : environment_(environment), parsed_(parsed) {}

  void Fill(const YamlNode& node, const std::string& path, Message* message) {
    if (node.kind != YamlNode::Kind::kMap) {
      Fail(node.place, path,
           fmt::format("expects keys with values, found {}", KindName(node.kind)));
      return;
    }
    std::map<std::string, ConfigPlace> seen;
    for (const auto& [key, value] : node.entries) {
      const FieldDescriptor* field = FindField(key, path, *message->GetDescriptor());
      if (field == nullptr) continue;
      const auto [first, is_new] = seen.emplace(key.scalar, key.place);
      const std::string field_path = Join(path, key.scalar);
      if (!is_new) {
        Fail(key.place, field_path,
             fmt::format("given twice; first on line {}", first->second.line));
        continue;
      }
      parsed_->places.Set(field_path, key.place);
      FillField(value, field_path, *field, message);
    }
  }

 private:
  const FieldDescriptor* FindField(const YamlNode& key, const std::string& path,
                                   const Descriptor& message) {
    if (key.kind != YamlNode::Kind::kScalar) {
      Fail(key.place, path, fmt::format("expects a key, found {}", KindName(key.kind)));
      return nullptr;
    }
    const FieldDescriptor* field = message.FindFieldByName(key.scalar);
    if (field == nullptr) {
      Fail(key.place, Join(path, key.scalar),
           "unknown key" + Suggestion(key.scalar, FieldNames(message)));
    }
    return field;
  }

  void FillField(const YamlNode& value, const std::string& path, const FieldDescriptor& field,
                 Message* message) {
    if (!field.is_repeated()) {
      FillOne(value, path, field, message);
      return;
    }
    if (value.kind != YamlNode::Kind::kSequence) {
      Fail(value.place, path, fmt::format("expects a list, found {}", KindName(value.kind)));
      return;
    }
    for (size_t i = 0; i < value.items.size(); ++i) {
      const std::string item_path = fmt::format("{}[{}]", path, i);
      parsed_->places.Set(item_path, value.items[i].place);
      FillOne(value.items[i], item_path, field, message);
    }
  }

  void FillOne(const YamlNode& value, const std::string& path, const FieldDescriptor& field,
               Message* message) {
    const auto& reflection = *message->GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !IsQuantity(field)) {
      Fill(value, path,
           field.is_repeated() ? reflection.AddMessage(message, &field)
                               : reflection.MutableMessage(message, &field));
      return;
    }
    if (value.kind != YamlNode::Kind::kScalar) {
      Fail(value.place, path, fmt::format("expects a value, found {}", KindName(value.kind)));
      return;
    }
    auto text = ExpandEnvironment(value.scalar, environment_);
    auto status = text.ok() ? SetScalar(*text, field, message) : text.status();
    if (status.ok()) return;
    // What came from the environment may be a secret.
    const bool shown = !IsSecret(field) && !absl::StrContains(value.scalar, "${");
    Fail(value.place, path,
         shown ? fmt::format("{}, found \"{}\"", std::string(status.message()), value.scalar)
               : std::string(status.message()));
  }

  static bool IsQuantity(const FieldDescriptor& field) {
    const std::string& type = field.message_type()->full_name();
    return type == "google.protobuf.Duration" || type == "tidemark.v1.ByteSize";
  }

  static absl::Status SetQuantity(const std::string& text, const FieldDescriptor& field,
                                  Message* message) {
    // Made only for a value that could be read: else the default holds, and breaks no rule.
    const auto made = [&] { return message->GetReflection()->MutableMessage(message, &field); };
    if (field.message_type()->full_name() == "tidemark.v1.ByteSize") {
      const auto bytes = ParseByteSize(text);
      if (bytes.ok()) static_cast<v1::ByteSize*>(made())->set_bytes(*bytes);
      return bytes.status();
    }
    const auto duration = ParseDuration(text);
    if (duration.ok()) {
      *static_cast<google::protobuf::Duration*>(made()) = ToDuration(*duration);
    }
    return duration.status();
  }

  // Where a message cannot tell a 0 from a key that is left out, no 0 may be meant.
  static absl::StatusOr<uint64_t> ParseNumber(const std::string& text, uint64_t max,
                                              const FieldDescriptor& field) {
    const auto value = ParseUnsigned(text, max);
    if (!value.ok() || *value > 0 || field.has_presence()) return value;
    return absl::InvalidArgumentError("expects a whole number from 1 on");
  }

  static absl::Status SetScalar(const std::string& text, const FieldDescriptor& field,
                                Message* message) {
    const auto& reflection = *message->GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return SetQuantity(text, field, message);
      case FieldDescriptor::CPPTYPE_BOOL: {
        const auto value = ParseBool(text);
        if (value.ok()) reflection.SetBool(message, &field, *value);
        return value.status();
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        const auto value = ParseNumber(text, std::numeric_limits<uint32_t>::max(), field);
        if (value.ok()) reflection.SetUInt32(message, &field, static_cast<uint32_t>(*value));
        return value.status();
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        const auto value = ParseNumber(text, std::numeric_limits<uint64_t>::max(), field);
        if (value.ok()) reflection.SetUInt64(message, &field, *value);
        return value.status();
      }
      case FieldDescriptor::CPPTYPE_STRING:
        if (field.is_repeated()) {
          reflection.AddString(message, &field, text);
        } else {
          reflection.SetString(message, &field, text);
        }
        return absl::OkStatus();
      default:
        return absl::InternalError(
            fmt::format("{} has a type that the configuration cannot read", field.full_name()));
    }
  }

  void Fail(const ConfigPlace& place, const std::string& path, std::string message) {
    parsed_->errors.push_back({place, path, std::move(message)});
  }

  const EnvironmentLookup& environment_;
  ParsedConfig* const parsed_;
};

}  // namespace

ParsedConfig ParseConfigYaml(std::string_view text, const EnvironmentLookup& environment) {
  ParsedConfig parsed;
  YamlDocument document = ReadYaml(text);
  if (document.error) {
    parsed.errors.push_back(*std::move(document.error));
  } else if (document.root.kind == YamlNode::Kind::kNull) {
    parsed.errors.push_back({{}, "", "the file is empty"});
  } else {
    MessageFiller(environment, &parsed).Fill(document.root, "", &parsed.config);
  }
  return parsed;
}

}  // namespace tidemark
