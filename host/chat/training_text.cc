#include "chat/training_text.h"

#include <algorithm>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/utf8.h"

namespace lamina::chat {
namespace {

bool is_answer(const Conversation& conversation, std::size_t message) {
  return conversation.role(message) == "assistant";
}

// The assistant messages that count in the loss. An answer without a prompt does not count.
std::vector<std::size_t> learned_answers(const Conversation& conversation, Learned learned) {
  std::vector<std::size_t> answers;
  for (std::size_t i = 1; i < conversation.size(); ++i)
    if (is_answer(conversation, i)) answers.push_back(i);
  if (learned == Learned::last && !answers.empty())
    answers.erase(answers.begin(), answers.end() - 1);
  std::erase_if(answers,
                [&](std::size_t i) { return !is_learned(conversation.messages()[i].root()); });
  return answers;
}

// Whole characters.
std::size_t common_prefix(std::string_view a, std::string_view b) {
  if (b.starts_with(a)) return a.size();
  auto same = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                       a.begin());
  while (same > 0 && same < b.size() && utf8_continues(b[same])) --same;
  return same;
}

// Returns the end of an answer, in bytes, in a text that may end with the prompt for the next
// answer. `next`: the text in which another message follows the answer. The prompt begins before
// the texts differ, since messages and prompts may begin with the same tokens. So the answer ends
// with the first control token that both prompts may contain, else where the texts differ.
std::size_t end_before_prompt(const text::Tokenizer& tokenizer, std::string_view prompt,
                              std::string_view whole, std::string_view next) {
  const std::size_t most = common_prefix(next, whole);
  if (most == whole.size()) return most;  // no prompt
  const text::EncodeOptions options = {.add_special = false, .parse_special = true};
  const std::vector<text::TokenId> before = tokenizer.encode(prompt, options);
  const text::Encoding all = tokenizer.encode_with_spans(whole, options);
  std::size_t token = static_cast<std::size_t>(
      all.ids.rend() -
      std::mismatch(before.rbegin(), before.rend(), all.ids.rbegin(), all.ids.rend()).second);
  std::size_t end = token > 0 ? all.spans[token - 1].end : 0;
  for (; token < all.ids.size() && all.spans[token].end <= most; ++token) {
    end = all.spans[token].end;
    if (tokenizer.is_special(all.ids[token])) break;
  }
  return end;
}

// An answer, and the text that ends with it.
struct Turn {
  jinja::Rendered whole;
  std::size_t begin = 0;  // where the answer begins, in bytes
};

class Rendering {
 public:
  Rendering(const text::Tokenizer& tokenizer, const Form& form, const Conversation& conversation)
      : tokenizer_(tokenizer),
        conversation_(conversation),
        inputs_(form.inputs(conversation, {.now = fixed_date()})) {
    Conversation question;
    question.add("user", "?");
    inputs_.add(question.messages()[0].root());
  }

  jinja::Rendered first(std::size_t num_messages, bool with_prompt) {
    return inputs_.render(num_messages, with_prompt);
  }

  // Ends `whole`, the text that ends with message `last`, before the prompt for the next answer,
  // which it has if the template ignores add_generation_prompt. `prompt`: the prompt for the answer
  // after the first `asked` messages.
  void end_before_prompt(std::string& whole, std::size_t last, std::string_view prompt,
                         std::size_t asked) {
    if (!ignores_prompt_) ignores_prompt_ = prompt == first(asked, false).text;
    // The message after the last one is a question, added by the constructor.
    if (!*ignores_prompt_ ||
        (last + 1 < conversation_.size() && is_answer(conversation_, last + 1)))
      return;
    whole.resize(chat::end_before_prompt(tokenizer_, prompt, whole, first(last + 2, false).text));
  }

  Turn turn(std::size_t message) { return turn(message, first(message + 1, false)); }
  // `whole`: the text that ends with the answer.
  Turn turn(std::size_t message, jinja::Rendered whole) {
    Turn out{std::move(whole)};
    const std::string& text = out.whole.text;
    const std::string prompt = first(message, true).text;
    out.begin = common_prefix(prompt, text);
    // Parts of the prompt's end may depend on the answer, eg an opened thought.
    if (out.begin < prompt.size() && out.begin < first(message, false).text.size())
      throw UserError(
          ExitCode::data,
          {"messages",
           fmt::format("the answer in message {} does not follow its prompt: the template renders "
                       "the text before the answer differently if the answer exists",
                       message + 1),
           {"use a template with {% generation %} marks around answers"}});
    end_before_prompt(out.whole.text, message, prompt, message);
    return out;
  }

 private:
  const text::Tokenizer& tokenizer_;
  const Conversation& conversation_;
  FormInputs inputs_;
  std::optional<bool> ignores_prompt_;  // absent: not known yet
};

// The text between the control token that ends an answer and the next message is white space that
// no model writes.
void end_with_control_token(const text::Tokenizer& tokenizer, MaskedTokens& tokens,
                            std::size_t begin, std::size_t end) {
  std::size_t last = end;
  while (last > begin && !tokenizer.is_special(tokens.ids[last - 1])) {
    const std::string_view bytes = tokenizer.token_bytes(tokens.ids[last - 1]);
    if (bytes.find_first_not_of(" \t\r\n") != bytes.npos) return;
    --last;
  }
  if (last == begin) return;
  std::fill(tokens.generated.begin() + static_cast<std::ptrdiff_t>(last),
            tokens.generated.begin() + static_cast<std::ptrdiff_t>(end), false);
}

// Encodes the text; the tokens of these parts (bytes) are learned.
MaskedTokens encode_answers(const text::Tokenizer& tokenizer, const std::string& text,
                            const std::vector<jinja::RenderedSpan>& answers) {
  MaskedTokens out = encode_with_mask(tokenizer, text, answers);
  for (std::size_t i = 0; i < out.generated.size();) {
    std::size_t end = i;
    while (end < out.generated.size() && out.generated[end]) ++end;
    if (end > i) end_with_control_token(tokenizer, out, i, end);
    i = end + 1;
  }
  return out;
}

// Uses the template's own marks; the answer `last` ends the text.
MaskedTokens marked(const text::Tokenizer& tokenizer, Rendering& rendering,
                    jinja::Rendered rendered, const Conversation& conversation, std::size_t last,
                    Learned learned) {
  if (learned == Learned::last) {
    const std::size_t begin = common_prefix(rendering.first(last, true).text, rendered.text);
    const std::size_t first = utf8_num_characters(std::string_view(rendered.text).substr(0, begin));
    std::erase_if(rendered.generated, [&](const jinja::GeneratedSpan& span) {
      return span.element ? *span.element != last : span.end <= first;
    });
    return encode_with_mask(tokenizer, rendered);
  }
  for (std::size_t i = 0; i < last; ++i) {
    if (is_learned(conversation.messages()[i].root())) continue;
    std::erase_if(rendered.generated, [i](const jinja::GeneratedSpan& span) {
      if (!span.element)
        throw UserError(ExitCode::data,
                        {"messages",
                         fmt::format("message {} is excluded from the loss, but the template has "
                                     "{{% generation %}} marks outside of a loop over the messages",
                                     i + 1),
                         {"use a template with the marks inside {% for message in messages %}"}});
      return *span.element == i;
    });
  }
  return encode_with_mask(tokenizer, rendered);
}

// The whole conversation; messages that are not learned are masked.
MaskedTokens whole_conversation(const text::Tokenizer& tokenizer, Rendering& rendering,
                                const Conversation& conversation) {
  const std::string text = rendering.first(conversation.size(), false).text;
  std::vector<jinja::RenderedSpan> learned;
  std::size_t done = 0;  // all text before it is learned or left out
  for (std::size_t i = 0; i < conversation.size(); ++i) {
    if (is_learned(conversation.messages()[i].root())) continue;
    const std::string before = i == 0 ? "" : rendering.first(i, false).text;
    const std::string with = rendering.first(i + 1, false).text;
    if (!text.starts_with(before) || !text.starts_with(with))
      throw UserError(
          ExitCode::data,
          {"messages",
           fmt::format("message {} is excluded from the loss, but the template renders it "
                       "differently once the conversation continues",
                       i + 1),
           {"use data.loss_on = \"assistant\""}});
    if (done < before.size()) learned.push_back({done, before.size()});
    done = std::max(done, with.size());
  }
  if (done < text.size()) learned.push_back({done, text.size()});
  return encode_with_mask(tokenizer, text, learned);
}

}  // namespace

bool is_learned(const JsonValue& message) {
  bool out = true;
  if (const JsonValue weight = message.find("weight"); weight && !weight.is_null()) {
    const double value = weight.is_number() ? weight.as_double() : -1;
    if (value != 0 && value != 1)
      weight.fail("must be 0 (not in the loss) or 1, got " + weight.describe());
    out = value == 1;
  }
  if (const JsonValue train = message.find("train"); train && !train.is_null()) {
    if (!train.is_bool()) train.fail("must be true or false, got " + train.describe());
    out = out && train.as_bool();
  }
  return out;
}

std::tm fixed_date() {
  std::tm out{};
  out.tm_year = 2024 - 1900;
  out.tm_mon = 6;
  out.tm_mday = 26;
  out.tm_wday = 5;
  out.tm_yday = 207;
  out.tm_isdst = 0;
  return out;
}

std::vector<MaskedTokens> training_tokens(const text::Tokenizer& tokenizer, const Form& form,
                                          const Conversation& conversation, Learned learned) {
  for (const JsonDocument& message : conversation.messages())
    static_cast<void>(is_learned(message.root()));  // throws for wrong values, for all roles
  const std::vector<std::size_t> answers = learned_answers(conversation, learned);
  Rendering rendering(tokenizer, form, conversation);
  if (learned == Learned::all) return {whole_conversation(tokenizer, rendering, conversation)};
  if (answers.empty()) return {};
  jinja::Rendered whole = rendering.first(answers.back() + 1, false);
  if (!whole.generated.empty())
    return {marked(tokenizer, rendering, std::move(whole), conversation, answers.back(), learned)};

  // From the last answer to the first: an answer belongs to the following text if that text still
  // begins with the whole answer.
  std::vector<MaskedTokens> out;
  std::optional<Turn> open;  // the text being collected, given by its last answer
  std::vector<jinja::RenderedSpan> spans;
  const auto close = [&] {
    std::reverse(spans.begin(), spans.end());
    out.push_back(encode_answers(tokenizer, open->whole.text, spans));
    spans.clear();
  };
  Turn turn = rendering.turn(answers.back(), std::move(whole));
  for (auto answer = answers.rbegin();;) {
    const jinja::RenderedSpan span{turn.begin, turn.whole.text.size()};
    if (open && !open->whole.text.starts_with(turn.whole.text)) {
      close();
      open.reset();
    }
    if (!open) open = std::move(turn);
    spans.push_back(span);
    if (++answer == answers.rend() || learned == Learned::last) break;
    turn = rendering.turn(*answer);
  }
  close();
  std::reverse(out.begin(), out.end());
  return out;
}

MaskedTokens completion_tokens(const text::Tokenizer& tokenizer, std::string_view prompt,
                               std::string_view whole, const text::EncodeOptions& options) {
  const std::vector<text::TokenId> alone = tokenizer.encode(prompt, options);
  MaskedTokens out{tokenizer.encode(whole, options), {}};
  const auto same = std::mismatch(alone.begin(), alone.end(), out.ids.begin(), out.ids.end());
  out.generated.assign(out.ids.size(), true);
  std::fill_n(out.generated.begin(), same.second - out.ids.begin(), false);
  return out;
}

MaskedTokens completion_tokens(const text::Tokenizer& tokenizer, const Form& form,
                               const Conversation& prompt, const Conversation& whole) {
  const std::string asked = Rendering(tokenizer, form, prompt).first(prompt.size(), true).text;
  Rendering rendering(tokenizer, form, whole);
  std::string text = rendering.first(whole.size(), false).text;
  rendering.end_before_prompt(text, whole.size() - 1, asked, prompt.size());
  return completion_tokens(tokenizer, asked, text, {.add_special = false, .parse_special = true});
}

}  // namespace lamina::chat
