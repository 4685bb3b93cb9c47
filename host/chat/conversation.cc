#include "chat/conversation.h"

#include "core/json_writer.h"
#include "core/read_file.h"

namespace lamina::chat {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

JsonOptions options() { return {.code = ExitCode::data, .max_bytes = kMaxBytes, .max_depth = 64}; }

void check_message(const JsonValue& message) {
  if (!message.is_object())
    message.fail("must be a message, eg {\"role\": \"user\", \"content\": \"hello\"}, got " +
                 message.describe());
  static_cast<void>(message.at("role").as_string());
}

void check_tools(const JsonValue& tools) {
  if (!tools.is_array()) tools.fail("must be a list of tools, got " + tools.describe());
}

}  // namespace

Conversation Conversation::read(const std::string& path) {
  return parse(read_file(path, ExitCode::data, kMaxBytes), path);
}

Conversation Conversation::parse(std::string text, const std::string& file) {
  const JsonDocument document = JsonDocument::parse(std::move(text), file, options());
  const JsonValue root = document.root();
  if (!root.is_array() && !root.is_object())
    root.fail("must be a list of messages, or an object with \"messages\"");
  Conversation out;
  for (const JsonValue message : (root.is_array() ? root : root.at("messages")).elements()) {
    check_message(message);
    out.messages_.push_back(document.part(message));
  }
  if (root.is_array()) return out;
  out.file_ = document;
  if (const JsonValue tools = root.find("tools"); tools && !tools.is_null()) {
    check_tools(tools);
    out.tools_ = document.part(tools);
  }
  return out;
}

namespace {

JsonDocument message(std::string_view role, std::string_view content,
                     std::string_view reasoning = {}) {
  JsonWriter json;
  json.begin_object().key("role").value(role);
  if (!reasoning.empty()) json.key("reasoning_content").value(reasoning);
  json.key("content").value(content).end_object();
  return JsonDocument::parse(json.text(), "message", options());
}

std::string_view without_newlines(std::string_view text) {
  while (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

}  // namespace

void Conversation::add(std::string_view role, std::string_view content) {
  messages_.push_back(message(role, content));
}

Thought split_thought(std::string_view text) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const std::size_t end = text.find(kEnd);
  if (end == text.npos) return {{}, text};
  std::string_view reasoning = text.substr(0, end);
  if (const std::size_t begin = reasoning.find(kBegin); begin != reasoning.npos)
    reasoning.remove_prefix(begin + kBegin.size());
  std::string_view content = text.substr(end + kEnd.size());
  while (!content.empty() && content.front() == '\n') content.remove_prefix(1);
  return {without_newlines(reasoning), content};
}

void Conversation::add_answer(std::string_view text) {
  const Thought thought = split_thought(text);
  messages_.push_back(message("assistant", thought.answer, thought.reasoning));
}

void Conversation::set_system(std::string_view content) {
  if (has_system()) messages_.erase(messages_.begin());
  if (!content.empty()) messages_.insert(messages_.begin(), message("system", content));
}

void Conversation::set_tools(JsonDocument tools) {
  check_tools(tools.root());
  tools_ = std::move(tools);
}

void Conversation::clear() {
  if (has_system())
    messages_.erase(messages_.begin() + 1, messages_.end());
  else
    messages_.clear();
}

std::string_view Conversation::role(std::size_t n) const {
  return messages_[n].root().at("role").as_string();
}

std::string Conversation::json() const {
  JsonWriter json(2);
  json.begin_object().key("messages").begin_array();
  for (const JsonDocument& message : messages_) json.value(message.root());
  json.end_array();
  if (tools_) json.key("tools").value(tools_->root());
  return json.end_object().text() + "\n";
}

}  // namespace lamina::chat
