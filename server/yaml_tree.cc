#include "server/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <sstream>
#include <utility>

#include "server/limits.h"

namespace tidemark {
namespace {

ConfigPlace PlaceOf(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1};
}

// Ends yaml-cpp's parser from within; never leaves this file.
struct Refusal {
  ConfigError error;
};

[[noreturn]] void Refuse(const YAML::Mark& mark, std::string message) {
  throw Refusal{{PlaceOf(mark), "", std::move(message)}};
}

// Builds the tree from the parser's events. Open containers lie on a stack; a key waits in its
// map's frame until its value is complete.
class TreeBuilder final : public YAML::EventHandler {
 public:
  YamlNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    CheckPlain(mark, "?", anchor);
    Complete(NewNode(YamlNode::Kind::kNull, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "aliases are not accepted");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    CheckPlain(mark, tag, anchor);
    YamlNode node = NewNode(YamlNode::Kind::kScalar, mark);
    node.scalar = value;
    Complete(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Push(YamlNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Pop(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Push(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Pop(); }

 private:
  struct Frame {
    YamlNode node;
    std::optional<YamlNode> key;
  };

  // yaml-cpp says "?" for a plain value and "!" for one in quotes.
  static void CheckPlain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) Refuse(mark, "anchors are not accepted");
    if (!tag.empty() && tag != "?" && tag != "!") Refuse(mark, "tags are not accepted");
  }

  YamlNode NewNode(YamlNode::Kind kind, const YAML::Mark& mark) {
    if (++nodes_ > limits::config_nodes_max) Refuse(mark, "the file has too many values");
    YamlNode node;
    node.kind = kind;
    node.place = PlaceOf(mark);
    return node;
  }

  void Push(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    CheckPlain(mark, tag, anchor);
    if (stack_.size() >= limits::config_depth_max) Refuse(mark, "nested too deeply");
    stack_.push_back({NewNode(kind, mark), std::nullopt});
  }

  void Pop() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    Complete(std::move(node));
  }

  void Complete(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = stack_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      parent.key = std::move(node);
    } else {
      parent.node.entries.push_back({*std::exchange(parent.key, std::nullopt), std::move(node)});
    }
  }

  YamlNode root_;
  std::vector<Frame> stack_;
  size_t nodes_ = 0;
};

YamlDocument Failed(ConfigError error) { return {{}, std::move(error)}; }

}  // namespace

std::string_view KindName(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "a single value";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "keys with values";
  }
  return "";
}

YamlDocument ReadYaml(std::string_view text) {
  if (text.size() > limits::config_file_bytes_max) {
    return Failed({{}, "", fmt::format("longer than {} bytes", limits::config_file_bytes_max)});
  }
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return Failed({{}, "", "holds a NUL byte: this is not a YAML file"});
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    parser.HandleNextDocument(builder);
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      return Failed({second.TakeRoot().place, "", "a second document; the file holds one"});
    }
    return {builder.TakeRoot(), std::nullopt};
  } catch (const Refusal& refusal) {
    return Failed(refusal.error);
  } catch (const YAML::Exception& error) {
    return Failed({PlaceOf(error.mark), "", "not YAML: " + error.msg});
  } catch (const std::exception& error) {
    return Failed({{}, "", std::string("not YAML: ") + error.what()});
  }
}

}  // namespace tidemark
