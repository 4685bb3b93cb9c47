// Conversations as a model learns them: tokens, and which of them count in the loss.
#pragma once

#include <ctime>
#include <string_view>
#include <vector>

#include "chat/answer_mask.h"
#include "chat/conversation.h"
#include "chat/form.h"

namespace lamina::chat {

// The part of a conversation that counts in the loss. Messages that say so are left out of it: see
// is_learned().
enum class Learned {
  assistant,  // every answer
  last,       // the last answer
  all,        // everything
};

// The keys of messages that say whether they are learned.
inline constexpr std::string_view kLearningKeys[] = {"weight", "train"};

// False for a message with "weight": 0 or "train": false; 1, true and null say nothing. Errors
// (class of the message's document): any other value.
bool is_learned(const JsonValue& message);

// 26 July 2024: what templates that print the date see wherever equal conversations are to be equal
// tokens.
std::tm fixed_date();

// The conversation up to its last answer, as the template writes it. Where the template marks what
// is generated ({% generation %}), the marks say what an answer is. Else it is what the template
// adds to the prompt for it, up to and with the control token that ends it. Where a template writes
// an answer in another way once the conversation has gone on (many leave out the thinking of
// earlier answers), that answer is a conversation of its own, which ends with it: each is learned
// after what the model reads before it. An answer that begins a conversation is not learned.
// Nothing for a conversation without another one. The date is fixed_date(). Errors: as
// Form::render(); class data where an answer does not follow its prompt.
std::vector<MaskedTokens> training_tokens(const text::Tokenizer& tokenizer, const Form& form,
                                          const Conversation& conversation, Learned learned);

// A prompt with what follows it, of which the latter is learned: from where the tokens of the whole
// begin to differ from those of the prompt alone, as TRL has it.
MaskedTokens completion_tokens(const text::Tokenizer& tokenizer, std::string_view prompt,
                               std::string_view whole, const text::EncodeOptions& options);

// Likewise of messages: a conversation and the answers that follow.
MaskedTokens completion_tokens(const text::Tokenizer& tokenizer, const Form& form,
                               const Conversation& prompt, const Conversation& whole);

}  // namespace lamina::chat
