// Converts the texts of a task to model inputs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/form.h"
#include "evaluation/scorer.h"
#include "text/tokenizer.h"

namespace lamina::evaluation {

// A text begins as in the tokenizer's own template (BOS, or nothing).
class Prompting {
 public:
  // With `chat` a prompt becomes a user message in the model's chat form, with the date
  // chat::fixed_date(). Both arguments must outlive this.
  Prompting(const text::Tokenizer& tokenizer, const chat::Form* chat)
      : tokenizer_(tokenizer), chat_(chat) {}

  bool is_chat() const { return chat_ != nullptr; }

  // Throws UserError (class data) for a text without tokens.
  std::vector<std::int32_t> prompt(std::string_view text) const;

  // A context and its continuation, split as in lm-evaluation-harness: white space at the end of
  // the context moves to the continuation, both are tokenized together, and the tokens beyond the
  // length of the context alone are scored. An empty context becomes the token that begins a text,
  // else the one that ends a text. In a chat, the continuation is tokenized separately. Throws
  // UserError (class data) if there is no token to score, or none before it.
  Continuation continuation(std::string_view context, std::string_view following) const;

 private:
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::vector<std::int32_t> beginning() const;

  const text::Tokenizer& tokenizer_;
  const chat::Form* chat_;
};

}  // namespace lamina::evaluation
