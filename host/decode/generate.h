// Generates text: token by token until a reason to stop.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "decode/sampler.h"
#include "decode/session.h"
#include "text/tokenizer.h"

namespace lamina::decode {

enum class StopReason { length, context, end_token, stop_string, interrupted };
// "length", "context", "eos", "stop", "interrupted"
std::string_view name(StopReason reason);

// The end of beam search: once as many texts have ended as there are beams; or also when the best
// running text is currently no better than the ended ones; or when it cannot become better.
enum class EarlyStopping { yes, no, never };

struct GenerateOptions {
  std::int64_t max_new_tokens = 128;
  SamplerOptions sampler = {};
  std::vector<std::int32_t> end_tokens = {};    // ids that end the text; not part of it
  bool ignore_end = false;                      // end_tokens do not end the text
  std::vector<std::string> stop = {};           // strings that end it; not part of it
  EmbeddingOverrides embedding_overrides = {};  // for placeholder tokens of the prompt
  std::int64_t num_beams = 1;                   // above 1: beam search, see beam_search.h
  double length_penalty = 1;                    // for beam search: higher favours longer texts
  EarlyStopping early_stopping = EarlyStopping::no;
  std::int64_t num_logprobs = 0;  // likeliest tokens to report per token
  // Tokens that the context has room for; fewer than max_new_tokens end the text as `context`.
  std::int64_t room_tokens = std::numeric_limits<std::int64_t>::max();
  // The output is a text by itself, such as an answer in a chat. Otherwise it continues the text of
  // all tokens before it: some tokenizers drop the space in front of the first token of a text.
  bool begins_text = false;
  // Control tokens that do not belong to the text, and the function that receives them, in order
  // with the texts of `emit`.
  std::vector<std::int32_t> control_tokens = {};
  std::function<void(std::int32_t)> on_control = {};
};

// For one token: log softmax of the model's logits.
struct TokenLogprobs {
  double chosen = 0;
  std::vector<std::pair<std::int32_t, double>> best;  // likeliest first
};

struct Generated {
  std::vector<std::int32_t> tokens;  // without the end token
  std::string text;                  // whole characters only
  StopReason reason = StopReason::length;
  std::vector<TokenLogprobs> logprobs;  // one per token, if requested
  double prompt_seconds = 0;            // until the first token is chosen
  double total_seconds = 0;
};

// Reads `prompt` (at least one token), then generates. `emit` gets whole characters as soon as they
// certainly do not begin a stop string, and never an empty text; `should_stop` is called between
// tokens. Without a tokenizer `emit` gets ids in decimal, separated by spaces.
Generated generate(Session& session, std::span<const std::int32_t> prompt,
                   const text::Tokenizer* tokenizer, const GenerateOptions& options,
                   const std::function<void(std::string_view)>& emit,
                   const std::function<bool()>& should_stop = {});

}  // namespace lamina::decode
