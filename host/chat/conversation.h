// Conversations: messages as chat templates see them, and their JSON files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/reasoning.h"
#include "core/json.h"

namespace lamina::chat {

// Returns whether a message of a user, an assistant or the system has no content, and none of the
// members that an answer may have instead: tool calls, reasoning. Members that are null are absent.
bool lacks_content(const JsonValue& message);

// Messages in the form that published templates read: objects with a role, a content, and other
// members that a model uses (tool calls, reasoning). Objects are kept unchanged.
class Conversation {
 public:
  Conversation() = default;

  // Reads a file with a list of messages, or an object with "messages" and optionally "tools",
  // "documents" and further variables of the template. Errors (class data): it cannot be read, is
  // not JSON, or a message is not an object with a role.
  static Conversation read(const std::string& path);
  static Conversation parse(std::string text, const std::string& file);

  void add(std::string_view role, std::string_view content);
  // Adds an answer of the model; its reasoning, if there is any, becomes "reasoning_content".
  void add_answer(const Thought& thought);
  // Replaces the first message if it is a system message, else inserts one. Empty: removes it.
  void set_system(std::string_view content);
  void set_tools(JsonDocument tools);
  void remove_tools() { tools_.reset(); }
  // Takes the system message and the tools of `other`, each only if this one has none.
  void add_missing(const Conversation& other);
  void pop_back() { messages_.pop_back(); }
  void clear();

  bool empty() const { return messages_.empty(); }
  std::size_t size() const { return messages_.size(); }
  // Borrowed from the conversation.
  std::string_view role(std::size_t message) const;
  bool has_system() const { return !empty() && role(0) == "system"; }
  const std::vector<JsonDocument>& messages() const { return messages_; }
  const std::optional<JsonDocument>& tools() const { return tools_; }
  // Variables of the file besides messages and tools; its root object, or nothing.
  const std::optional<JsonDocument>& file() const { return file_; }

  // JSON that read() accepts.
  std::string json() const;

 private:
  std::vector<JsonDocument> messages_;
  std::optional<JsonDocument> tools_, file_;
};

}  // namespace lamina::chat
