// From the texts of a task to what a model reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/form.h"
#include "evaluation/scorer.h"
#include "text/tokenizer.h"

namespace lamina::evaluation {

// A text begins as the tokenizer's own template begins one (BOS, or nothing).
class Prompting {
 public:
  // With `chat` a prompt is a message of a user, in the model's chat form; the date in it is
  // chat::fixed_date(). Both outlive this.
  Prompting(const text::Tokenizer& tokenizer, const chat::Form* chat)
      : tokenizer_(tokenizer), chat_(chat) {}

  bool is_chat() const { return chat_ != nullptr; }

  // Throws UserError (class data) for a text that has no tokens.
  std::vector<std::int32_t> prompt(std::string_view text) const;

  // A context and what follows it, as lm-evaluation-harness cuts them: white space at the end of
  // the context goes to what follows, both are tokenized together, and scored is what is longer
  // than the context alone. An empty context is the token that begins a text, else the one that
  // ends one. In a chat, what follows is tokenized for itself. Throws UserError (class data) where
  // no token is left to score, or none is there before it.
  Continuation continuation(std::string_view context, std::string_view following) const;

 private:
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::vector<std::int32_t> beginning() const;

  const text::Tokenizer& tokenizer_;
  const chat::Form* chat_;
};

}  // namespace lamina::evaluation
