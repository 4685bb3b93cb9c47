#include "cli/generate/chat_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/encode.h"
#include "cli/generate/answer_display.h"
#include "core/error.h"

namespace lamina::cli {

ChatAnswer ChatSession::say(std::string_view text) {
  conversation.add("user", text);
  try {
    return answer();
  } catch (const Error&) {
    conversation.pop_back();
    throw;
  }
}

ChatAnswer ChatSession::regenerate() {
  if (conversation.empty() || conversation.role(conversation.size() - 1) != "assistant")
    throw UserError(ExitCode::usage, {"/regen", "there is no answer yet", {}});
  const chat::Conversation before = conversation;
  conversation.pop_back();
  ++settings.generate.sampler.seed;  // the same seed would give the same answer
  try {
    return answer();
  } catch (const Error&) {
    conversation = before;
    throw;
  }
}

ChatAnswer ChatSession::answer() {
  const jinja::Rendered rendered = form_.render(conversation, settings.form);
  const std::vector<text::TokenId> ids = chat::encode(tokenizer_, rendered);
  const auto length = static_cast<std::int64_t>(ids.size());
  if (ids.empty())
    throw UserError(ExitCode::usage,
                    {"chat", "the template renders the messages as an empty text", {}});
  if (length > context_)
    throw UserError(ExitCode::data,
                    {"chat",
                     fmt::format("the conversation has {} tokens; the context has room for {}",
                                 length, context_),
                     {"start again with /reset, or restart with a larger --ctx-size"}});
  ChatAnswer out;
  out.conversation_tokens = ids.size();
  out.kept_tokens = state_.keep_prefix(ids);
  decode::GenerateOptions options = settings.generate;
  options.room_tokens = context_ - length + 1;
  options.begins_text = true;
  const chat::ReasoningMarks marks =
      settings.marks ? *settings.marks
                     : chat::ReasoningMarks::published(tokenizer_, rendered.own_text);
  AnswerDisplay display(marks, marks.opened_by(rendered), settings.style, emit_);
  display.watch(options);
  out.generated = decode::generate(
      state_, std::span(ids).subspan(out.kept_tokens), &tokenizer_, options,
      [&](std::string_view text) { display.push(text); }, should_stop_);
  conversation.add_answer(display.finish());
  return out;
}

}  // namespace lamina::cli
