#include "evaluation/prompting.h"

#include <algorithm>

#include "chat/encode.h"
#include "chat/training_text.h"
#include "core/error.h"
#include "evaluation/white_space.h"

namespace lamina::evaluation {
namespace {

[[noreturn]] void bad_record(std::string what) {
  throw UserError(ExitCode::data, {"", std::move(what), {}});
}

}  // namespace

std::vector<std::int32_t> Prompting::beginning() const {
  const auto bos = tokenizer_.bos_id();
  const std::vector<std::int32_t> added = tokenizer_.encode("");
  if (bos && !added.empty() && added.front() == *bos) return {*bos};
  return {};
}

std::vector<std::int32_t> Prompting::encode(std::string_view text) const {
  return tokenizer_.encode(text, {.add_special = false});
}

std::vector<std::int32_t> Prompting::prompt(std::string_view text) const {
  std::vector<std::int32_t> out;
  if (chat_) {
    chat::Conversation conversation;
    conversation.add("user", text);
    out = chat::encode(tokenizer_, chat_->render(conversation, {.now = chat::fixed_date()}));
  } else {
    out = beginning();
    const std::vector<std::int32_t> ids = encode(text);
    out.insert(out.end(), ids.begin(), ids.end());
  }
  if (out.empty()) bad_record("the prompt has no tokens; give at least one character");
  return out;
}

Continuation Prompting::continuation(std::string_view context, std::string_view following) const {
  Continuation out;
  std::vector<std::int32_t> scored;
  if (chat_) {
    out.tokens = prompt(context);
    scored = encode(following);
  } else {
    const std::string_view head = without_trailing_space(context);
    out.tokens = beginning();
    const std::vector<std::int32_t> alone = encode(head);
    out.tokens.insert(out.tokens.end(), alone.begin(), alone.end());
    if (out.tokens.empty()) {
      const auto first = tokenizer_.bos_id() ? tokenizer_.bos_id() : tokenizer_.eos_id();
      if (!first)
        bad_record(
            "the context is empty, and the tokenizer has no token that begins or ends a "
            "text; give at least one character");
      out.tokens = {*first};
    }
    scored = encode(std::string(context) + std::string(following));
    scored.erase(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(
                                                      std::min(alone.size(), scored.size())));
  }
  if (scored.empty()) bad_record("adds no token to its context, so there is nothing to score");
  out.prompt_tokens = out.tokens.size();
  out.tokens.insert(out.tokens.end(), scored.begin(), scored.end());
  return out;
}

}  // namespace lamina::evaluation
