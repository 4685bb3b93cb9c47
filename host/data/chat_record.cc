#include "data/chat_record.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "chat/conversation.h"
#include "chat/reasoning.h"
#include "chat/training_text.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "core/lower_case.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "data/json_lines.h"
#include "data/preference_record.h"

namespace lamina::data {
namespace {

using chat::Conversation;
using chat::MaskedTokens;

// Returns the role that is probably meant; "" if the given one may be right. Templates know further
// roles, among them "buyer" and "user2", so only words with the same first letter are compared.
std::string meant_role(std::string_view given) {
  const std::string roles[] = {"user", "assistant"};
  const std::string lower = lower_case(given);
  if (given.size() < 3 || lower.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != lower.npos)
    return "";
  const std::string near = nearest_name(given, roles);
  return near.starts_with(lower[0]) && near != given ? near : "";
}

// Checks for misspelt keys and roles, which templates ignore: the answer would be empty, or left
// out.
void check_spelling(const JsonValue& message) {
  if (!message.is_object()) return;  // has its own error
  const JsonValue said = message.at("role");
  const std::string_view role = said.as_string();
  if (const std::string meant = meant_role(role); !meant.empty())
    said.fail("is not a role, got " + said.describe(),
              {fmt::format("did you mean \"{}\"?", meant)});
  if (!chat::lacks_content(message)) return;
  std::vector<std::string> keys, notes;
  for (const auto& [key, value] : message.members())
    if (!value.is_null()) keys.push_back(printable(key, 60));
  const bool is_answer = role == "assistant";
  for (const char* name : {"content", "tool_calls", "reasoning_content"})
    if (const std::string near = nearest_name(name, keys);
        !near.empty() && (is_answer || name == std::string_view("content")))
      notes.push_back(fmt::format("did you mean '{}' for '{}'?", name, near));
  message.fail(
      fmt::format("has the role {} and no content{}; it has {}", role,
                  is_answer ? ", tool_calls or reasoning_content" : "", fmt::join(keys, ", ")),
      std::move(notes));
}

// Writes messages in the published form, with the other inputs of the template.
class ConversationWriter {
 public:
  explicit ConversationWriter(const Reading& reading) : dropped_(reading.dropped_thinking) {
    json_.begin_object().key("messages").begin_array();
  }

  // `turn` is an object with the message's "weight" or "train", if it has one.
  void add(std::string_view role, std::string_view content, const JsonValue& turn = {}) {
    json_.begin_object().key("role").value(role).key("content");
    if (dropped_ && role == kAnswerer)
      json_.value(chat::split_thought(content, *dropped_).answer);
    else
      json_.value(content);
    add_switches(turn);
    json_.end_object();
  }
  void add(const JsonValue& message) {
    check_spelling(message);
    if (dropped_ && is_answer(message))
      add_without_thinking(message);
    else
      json_.value(message);
  }
  // Adds tool calls in ShareGPT's form: one object or a list of {"name": .., "arguments": ..}.
  void add_calls(const JsonValue& turn) {
    const JsonValue value = turn.at("value");
    const JsonDocument calls =
        JsonDocument::parse(std::string(value.as_string()), value.where(),
                            {.code = ExitCode::data, .infinite_numbers = true, .part = "text"});
    json_.begin_object().key("role").value("assistant").key("content").value("");
    add_switches(turn);
    json_.key("tool_calls").begin_array();
    const auto call = [this](const JsonValue& function) {
      json_.begin_object().key("type").value("function").key("function").value(function);
      json_.end_object();
    };
    if (calls.root().is_array())
      for (const JsonValue function : calls.root().elements()) call(function);
    else
      call(calls.root());
    json_.end_array().end_object();
  }

  Conversation finish(const JsonValue& record, const std::string& place) && {
    json_.end_array();
    if (const JsonValue tools = member_of(record, "tools")) {
      json_.key("tools");
      // Columnar formats cannot store schemas of different shapes, so data sets store them as
      // strings.
      if (tools.is_string())
        json_.value(
            JsonDocument::parse(std::string(tools.as_string()), tools.where(),
                                {.code = ExitCode::data, .infinite_numbers = true, .part = "text"})
                .root());
      else
        json_.value(tools);
    }
    if (const JsonValue documents = member_of(record, "documents"))
      json_.key("documents").value(documents);
    if (const JsonValue more = member_of(record, "chat_template_kwargs"))
      for (const auto& [name, value] : more.members())
        if (name != "messages" && name != "tools" && name != "documents" &&
            !(dropped_ && is_switch(name)))
          json_.key(name).value(value);
    if (dropped_)
      for (const std::string_view name : kSwitches) json_.key(name).value(false);
    return Conversation::parse(json_.end_object().text(), place);
  }

 private:
  void add_switches(const JsonValue& turn) {
    if (!turn) return;
    for (const std::string_view name : chat::kLearningKeys)
      if (const JsonValue value = turn.find(name)) json_.key(name).value(value);
  }

  static constexpr std::string_view kAnswerer = "assistant";
  // Members with reasoning, and the variables that tell templates to produce none.
  static constexpr std::string_view kThoughts[] = {"reasoning_content", "reasoning", "thinking"};
  static constexpr std::string_view kThoughtParts[] = {"thinking", "reasoning"};
  static constexpr std::string_view kSwitches[] = {"enable_thinking", "thinking"};

  static bool is_answer(const JsonValue& message) {
    const JsonValue role = message.is_object() ? message.find("role") : JsonValue();
    return role && role.is_string() && role.as_string() == kAnswerer;
  }
  static bool is_switch(std::string_view name) {
    return std::ranges::find(kSwitches, name) != std::end(kSwitches);
  }

  void add_without_thinking(const JsonValue& message) {
    json_.begin_object();
    for (const auto& [name, value] : message.members()) {
      if (std::ranges::find(kThoughts, name) != std::end(kThoughts)) continue;
      json_.key(name);
      if (name == "content" && value.is_string())
        json_.value(chat::split_thought(value.as_string(), *dropped_).answer);
      else if (name == "content" && value.is_array())
        add_parts_without_thinking(value);
      else
        json_.value(value);
    }
    json_.end_object();
  }

  // A content in parts: {"type": "thinking", ..} and {"type": "text", "text": ".."}.
  void add_parts_without_thinking(const JsonValue& parts) {
    json_.begin_array();
    for (const JsonValue part : parts.elements()) {
      const JsonValue type = part.is_object() ? part.find("type") : JsonValue();
      const bool is_text = type && type.is_string() && type.as_string() == "text";
      if (type && type.is_string() &&
          std::ranges::find(kThoughtParts, type.as_string()) != std::end(kThoughtParts))
        continue;
      if (!is_text) {
        json_.value(part);
        continue;
      }
      json_.begin_object();
      for (const auto& [name, value] : part.members()) {
        json_.key(name);
        if (name == "text" && value.is_string())
          json_.value(chat::split_thought(value.as_string(), *dropped_).answer);
        else
          json_.value(value);
      }
      json_.end_object();
    }
    json_.end_array();
  }

  const chat::ReasoningMarks* dropped_;
  JsonWriter json_;
};

void add_share_gpt(const JsonValue& turns, ConversationWriter& out) {
  for (const JsonValue turn : turns.elements()) {
    const JsonValue from = turn.at("from"), value = turn.at("value");
    const std::string_view name = from.as_string();
    if (name == "human" || name == "user")
      out.add("user", value.as_string(), turn);
    else if (name == "gpt" || name == "assistant")
      out.add("assistant", value.as_string(), turn);
    else if (name == "system")
      out.add("system", value.as_string(), turn);
    else if (name == "observation" || name == "tool")
      out.add("tool", value.as_string(), turn);
    else if (name == "function_call")
      out.add_calls(turn);
    else
      from.fail(
          "must be \"human\", \"gpt\", \"system\", \"observation\" or \"function_call\", got " +
          from.describe());
  }
}

void add_system(const JsonValue& record, ConversationWriter& out) {
  if (const JsonValue system = member_of(record, "system"))
    if (!system.as_string().empty()) out.add("system", system.as_string());
}

const chat::Form& template_of(const Reading& reading) {
  if (!reading.chat)
    throw UserError(ExitCode::data, {"messages",
                                     fmt::format("need a chat template, but {} has none",
                                                 reading.tokenizer_path == "byte"
                                                     ? "data.tokenizer = \"byte\""
                                                     : reading.tokenizer_path +
                                                           ", the directory of the tokenizer,"),
                                     {reading.next_steps.chat_template}});
  return *reading.chat;
}

chat::Learned learned(const Reading& reading) {
  switch (reading.loss_on) {
    case LossOn::assistant:
      return chat::Learned::assistant;
    case LossOn::last:
      return chat::Learned::last;
    case LossOn::all:
      break;
  }
  return chat::Learned::all;
}

std::vector<JsonValue> elements_of(const JsonValue& list) {
  std::vector<JsonValue> out;
  for (const JsonValue element : list.elements()) out.push_back(element);
  return out;
}

MaskedTokens completion_of(const JsonValue& prompt, const JsonValue& completion,
                           const JsonValue& record, const std::string& place,
                           const Reading& reading) {
  MaskedTokens out = prompt.is_string()
                         ? completion_of_texts(prompt.as_string(), completion.as_string(), reading)
                         : completion_of_messages(elements_of(prompt), elements_of(completion),
                                                  record, place, reading);
  if (reading.loss_on == LossOn::all) out.generated.assign(out.ids.size(), true);
  return out;
}

ChatDocuments documents_of(const Conversation& conversation, const Reading& reading) {
  ChatDocuments out{chat::training_tokens(reading.tokenizer, template_of(reading), conversation,
                                          learned(reading)),
                    {}};
  if (reading.loss_on == LossOn::all) return out;
  std::size_t first = out.documents.empty() ? 0 : conversation.size();
  while (first > 0 && conversation.role(first - 1) != "assistant") --first;
  for (; first < conversation.size(); ++first)
    out.skipped_roles.emplace_back(conversation.role(first));
  return out;
}

}  // namespace

JsonValue member_of(const JsonValue& record, std::string_view key) {
  const JsonValue value = record.find(key);
  return value && value.is_null() ? JsonValue() : value;
}

MaskedTokens completion_of_texts(std::string_view prompt, std::string_view completion,
                                 const Reading& reading) {
  const text::Tokenizer& tokenizer = reading.tokenizer;
  MaskedTokens out = chat::completion_tokens(
      tokenizer, prompt, std::string(prompt) + std::string(completion), {.parse_special = true});
  const auto eos = tokenizer.eos_id();
  if (eos && (out.ids.empty() || out.ids.back() != *eos)) {
    out.ids.push_back(*eos);
    out.generated.push_back(true);
  }
  return out;
}

MaskedTokens completion_of_messages(const std::vector<JsonValue>& prompt,
                                    const std::vector<JsonValue>& completion,
                                    const JsonValue& record, const std::string& place,
                                    const Reading& reading) {
  ConversationWriter before(reading), whole(reading);
  for (const JsonValue& message : prompt) {
    before.add(message);
    whole.add(message);
  }
  for (const JsonValue& message : completion) {
    if (message.is_object() && !chat::is_learned(message))
      message.fail("is excluded from the loss, but every message of a completion is in the loss",
                   {"put the conversation into \"messages\", which can contain such messages"});
    whole.add(message);
  }
  return chat::completion_tokens(reading.tokenizer, template_of(reading),
                                 std::move(before).finish(record, place),
                                 std::move(whole).finish(record, place));
}

ChatDocuments read_chat_record(const JsonValue& record, const std::string& place,
                               const Reading& reading) {
  if (!record.is_object()) record.fail("must be an object, got " + record.describe());
  const JsonValue messages = member_of(record, "messages"),
                  turns = member_of(record, "conversations"),
                  instruction = member_of(record, "instruction");
  const bool is_conversation = messages || turns || instruction;
  if (const JsonValue prompt = member_of(record, "prompt");
      prompt && (!is_conversation || member_of(record, "completion"))) {
    return {{completion_of(
                prompt, record_member(record, "completion", "", preference_advice(record, reading)),
                record, place, reading)},
            {}};
  }
  ConversationWriter out(reading);
  if (messages) {
    for (const JsonValue message : messages.elements()) out.add(message);
  } else if (turns) {
    add_system(record, out);
    add_share_gpt(turns, out);
  } else if (instruction) {
    add_system(record, out);
    std::string asked(instruction.as_string());
    if (const JsonValue input = member_of(record, "input"))
      if (!input.as_string().empty()) asked.append("\n").append(input.as_string());
    out.add("user", asked);
    out.add("assistant", record_member(record, "output").as_string());
  } else {
    const std::vector<std::string> advice = preference_advice(record, reading);
    record.fail(
        "has none of \"messages\", \"conversations\", \"instruction\" and \"prompt\"",
        advice.empty() ? std::vector<std::string>{reading.next_steps.chat_of_texts} : advice);
  }
  return documents_of(std::move(out).finish(record, place), reading);
}

}  // namespace lamina::data
