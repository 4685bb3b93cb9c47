#include "cli/chat_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/encode.h"
#include "core/error.h"

namespace lamina::cli {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kDim = "\x1b[2m", kPlain = "\x1b[0m";

}  // namespace

Answer ChatSession::say(std::string_view text) {
  conversation.add("user", text);
  try {
    return answer();
  } catch (const Error&) {
    conversation.pop_back();
    throw;
  }
}

Answer ChatSession::regenerate() {
  if (conversation.empty() || conversation.role(conversation.size() - 1) != "assistant")
    throw UserError(ExitCode::usage, {"/regen", "there is no answer yet to give again", {}});
  conversation.pop_back();
  ++settings.generate.sampler.seed;  // the same seed would give the same answer
  return answer();
}

Answer ChatSession::answer() {
  const jinja::Rendered rendered = form_.render(conversation, settings.form);
  const std::vector<text::TokenId> ids = chat::encode(tokenizer_, rendered);
  const auto length = static_cast<std::int64_t>(ids.size());
  if (ids.empty())
    throw UserError(ExitCode::usage, {"chat", "the template makes nothing of the messages", {}});
  if (length > context_)
    throw UserError(
        ExitCode::data,
        {"chat",
         fmt::format("the conversation has {} tokens; the context holds {}", length, context_),
         {"begin another with /reset, or start with a larger --ctx-size"}});
  Answer out;
  out.conversation_tokens = ids.size();
  out.kept_tokens = state_.keep_prefix(ids);
  decode::GenerateOptions options = settings.generate;
  options.max_new_tokens = std::min(options.max_new_tokens, context_ - length + 1);
  std::string_view end = rendered.text;
  while (!end.empty() && end.back() == '\n') end.remove_suffix(1);
  ThinkingStyle style(settings.dim_thinking, end.ends_with(kThink));
  const auto show = [&](const std::string& text) {
    if (!text.empty()) emit_(text);
  };
  out.generated = decode::generate(
      state_, std::span(ids).subspan(out.kept_tokens), &tokenizer_, options,
      [&](std::string_view text) { show(style.push(text)); }, should_stop_);
  show(style.finish());
  conversation.add_answer(out.generated.text);
  return out;
}

ThinkingStyle::ThinkingStyle(bool enabled, bool inside) : enabled_(enabled), inside_(inside) {}

std::string ThinkingStyle::push(std::string_view text) {
  if (!enabled_) return std::string(text);
  std::string out;
  if (inside_ && !std::exchange(shown_, true)) out += kDim;
  held_ += text;
  for (;;) {
    const std::string_view tag = inside_ ? kThinkEnd : kThink;
    const std::size_t at = held_.find(tag);
    if (at == held_.npos) break;
    // The tags are part of the thought.
    out += held_.substr(0, inside_ ? at + tag.size() : at);
    out += inside_ ? kPlain : kDim;
    if (!inside_) out += tag;
    held_.erase(0, at + tag.size());
    inside_ = !inside_;
    shown_ = true;
  }
  const std::string_view tag = inside_ ? kThinkEnd : kThink;
  std::size_t keep = std::min(held_.size(), tag.size() - 1);
  while (keep > 0 && !tag.starts_with(std::string_view(held_).substr(held_.size() - keep))) --keep;
  out += held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string ThinkingStyle::finish() {
  std::string out = std::exchange(held_, {});
  if (enabled_ && inside_ && shown_) out += kPlain;
  return out;
}

}  // namespace lamina::cli
