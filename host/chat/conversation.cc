#include "chat/conversation.h"

#include "core/json_writer.h"
#include "core/read_file.h"

namespace lamina::chat {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

JsonOptions options() {
  return {
      .code = ExitCode::data, .max_bytes = kMaxBytes, .max_depth = 64, .infinite_numbers = true};
}

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

bool lacks_content(const JsonValue& message) {
  const std::string_view role = message.at("role").as_string();
  if (role != "user" && role != "assistant" && role != "system") return false;
  for (const std::string_view key : {"content", "tool_calls", "function_call", "tool_plan",
                                     "reasoning_content", "reasoning", "thinking"})
    if (const JsonValue value = message.find(key); value && !value.is_null()) return false;
  return true;
}

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

}  // namespace

void Conversation::add(std::string_view role, std::string_view content) {
  messages_.push_back(message(role, content));
}

void Conversation::add_answer(const Thought& thought) {
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

void Conversation::add_missing(const Conversation& other) {
  if (!has_system() && other.has_system()) messages_.insert(messages_.begin(), other.messages_[0]);
  if (!tools_) tools_ = other.tools_;
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
  if (file_)
    for (const auto& [name, value] : file_->root().members())
      if (name != "messages" && name != "tools") json.key(name).value(value);
  return json.end_object().text() + "\n";
}

}  // namespace lamina::chat
