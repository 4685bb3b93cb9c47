// Conversations as training data: tokens, and the tokens that count in the loss.
#pragma once

#include <ctime>
#include <string_view>
#include <vector>

#include "chat/answer_mask.h"
#include "chat/conversation.h"
#include "chat/form.h"

namespace lamina::chat {

// The part of a conversation that counts in the loss, except messages excluded by is_learned().
enum class Learned {
  assistant,  // every answer
  last,       // the last answer
  all,        // everything
};

// The keys of messages that decide if they are learned.
inline constexpr std::string_view kLearningKeys[] = {"weight", "train"};

// False for a message with "weight": 0 or "train": false; 1, true and null have no effect. Errors
// (class of the message's document): any other value.
bool is_learned(const JsonValue& message);

// 26 July 2024: the date for templates that print one, so that equal conversations give equal
// tokens.
std::tm fixed_date();

// The conversation up to its last answer, as the template renders it. If the template marks
// generated text ({% generation %}), the marks define the answers. Otherwise an answer is the text
// that the template adds to its prompt, including the control token that ends it, without the next
// prompt of a template that ignores add_generation_prompt. Some templates render an answer
// differently once the conversation continues (many drop the reasoning of earlier answers); such an
// answer becomes a separate conversation that ends with it, so that each answer is learned after
// the text that the model reads before it. Without marks, an answer that begins a conversation is
// not learned. Returns nothing for a conversation without another answer. The date is fixed_date().
// Errors: as Form::render(); class data if an answer does not follow its prompt, or if a message
// is excluded from the loss and marks are outside of a loop over the messages.
std::vector<MaskedTokens> training_tokens(const text::Tokenizer& tokenizer, const Form& form,
                                          const Conversation& conversation, Learned learned);

// A prompt and a completion; the completion is learned: from the first token that differs from the
// tokens of the prompt alone, as in TRL.
MaskedTokens completion_tokens(const text::Tokenizer& tokenizer, std::string_view prompt,
                               std::string_view whole, const text::EncodeOptions& options);

// Likewise for messages: a conversation and the answers that follow, without the next prompt.
MaskedTokens completion_tokens(const text::Tokenizer& tokenizer, const Form& form,
                               const Conversation& prompt, const Conversation& whole);

}  // namespace lamina::chat
