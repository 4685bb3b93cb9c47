#include "data/preference_record.h"

#include <algorithm>

#include "core/json_writer.h"
#include "data/chat_record.h"
#include "data/json_lines.h"

namespace lamina::data {
namespace {

using chat::MaskedTokens;

// Returns the length of the common prompt of two texts. As in TRL, a space before the first
// difference belongs to the answer; multi-byte characters are not split.
std::size_t common_text(std::string_view a, std::string_view b) {
  const auto differ = std::ranges::mismatch(a, b);
  auto n = static_cast<std::size_t>(differ.in1 - a.begin());
  const auto is_inside = [](std::string_view text, std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (n > 0 && (is_inside(a, n) || is_inside(b, n))) --n;
  if (n > 0 && a[n - 1] == ' ') --n;
  return n;
}

std::vector<JsonValue> messages_of(const JsonValue& list) {
  std::vector<JsonValue> out;
  for (const JsonValue message : list.elements()) out.push_back(message);
  return out;
}

std::string text_of(const JsonValue& value) {
  JsonWriter json;
  json.value(value);
  return json.text();
}

// Returns the number of messages at the start that are equal in both. As in TRL, the last one of a
// list is an answer.
std::size_t common_messages(const std::vector<JsonValue>& a, const std::vector<JsonValue>& b) {
  std::size_t n = 0;
  while (n + 1 < a.size() && n + 1 < b.size() && text_of(a[n]) == text_of(b[n])) ++n;
  return n;
}

std::vector<MaskedTokens> texts(const JsonValue& prompt, std::string_view chosen,
                                std::string_view rejected, const Reading& reading) {
  std::string_view before;
  if (prompt) {
    before = prompt.as_string();
  } else {
    const std::size_t n = common_text(chosen, rejected);
    before = chosen.substr(0, n);
    chosen.remove_prefix(n);
    rejected.remove_prefix(n);
  }
  return {completion_of_texts(before, chosen, reading),
          completion_of_texts(before, rejected, reading)};
}

std::vector<MaskedTokens> messages(const JsonValue& prompt, const JsonValue& record,
                                   const std::string& place, const Reading& reading) {
  std::vector<JsonValue> before, chosen = messages_of(record.at("chosen")),
                                 rejected = messages_of(record.at("rejected"));
  const auto n = static_cast<std::ptrdiff_t>(common_messages(chosen, rejected));
  // Answers that begin with the question may have it as a text beside them.
  if (prompt && !(prompt.is_string() && n > 0)) {
    before = messages_of(prompt);
  } else {
    before.assign(chosen.begin(), chosen.begin() + n);
    chosen.erase(chosen.begin(), chosen.begin() + n);
    rejected.erase(rejected.begin(), rejected.begin() + n);
  }
  return {completion_of_messages(before, chosen, record, place, reading),
          completion_of_messages(before, rejected, record, place, reading)};
}

}  // namespace

std::vector<std::string> preference_advice(const JsonValue& record, const Reading& reading) {
  if (!record.is_object() || !member_of(record, "chosen") || !member_of(record, "rejected"))
    return {};
  return {reading.next_steps.preference};
}

std::vector<MaskedTokens> read_preference_record(const JsonValue& record, const std::string& place,
                                                 const Reading& reading) {
  const std::string form = R"(a record has "chosen" and "rejected", and may have "prompt")";
  const JsonValue chosen = record_member(record, "chosen", "", {form}),
                  rejected = record_member(record, "rejected", "", {form}),
                  prompt = member_of(record, "prompt");
  if (!chosen.is_string() && !chosen.is_array())
    chosen.fail("must be a text or a list of messages, got " + chosen.describe(), {form});
  std::vector<MaskedTokens> out =
      chosen.is_string() ? texts(prompt, chosen.as_string(), rejected.as_string(), reading)
                         : messages(prompt, record, place, reading);
  if (out[0].ids == out[1].ids) return {};
  // The first token of a document is input only.
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i].ids.empty() || std::find(out[i].generated.begin() + 1, out[i].generated.end(),
                                        true) == out[i].generated.end())
      (i == 0 ? chosen : rejected).fail("has no token that the model could learn to predict");
  return out;
}

}  // namespace lamina::data
