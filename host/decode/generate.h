// Generating text: tokens one by one until a reason to stop.
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

// When beam search ends: once as many texts have ended as there are beams; when, besides, the best
// one that goes on is no better than they are now; when it cannot become better.
enum class EarlyStopping { yes, no, never };

struct GenerateOptions {
  std::int64_t max_new_tokens = 128;
  SamplerOptions sampler = {};
  std::vector<std::int32_t> end_tokens = {};    // ids that end the text; not part of it
  bool ignore_end = false;                      // they end nothing
  std::vector<std::string> stop = {};           // strings that end it; not part of it
  EmbeddingOverrides embedding_overrides = {};  // of placeholder tokens of the prompt
  std::int64_t num_beams = 1;                   // more than one: beam search, see beam_search.h
  double length_penalty = 1;                    // of beam search: more favours longer texts
  EarlyStopping early_stopping = EarlyStopping::no;
  std::int64_t num_logprobs = 0;  // likeliest tokens to report for each one
  // Tokens that the context has room for; fewer than max_new_tokens end the text as `context`.
  std::int64_t room_tokens = std::numeric_limits<std::int64_t>::max();
  // Control tokens that are no part of the text, and the function that gets them in their place
  // between the texts of `emit`.
  std::vector<std::int32_t> control_tokens = {};
  std::function<void(std::int32_t)> on_control = {};
};

// Of one token: log softmax of the logits as the model gave them.
struct TokenLogprobs {
  double chosen = 0;
  std::vector<std::pair<std::int32_t, double>> best;  // likeliest first
};

struct Generated {
  std::vector<std::int32_t> tokens;  // without the end token
  std::string text;                  // whole characters only
  StopReason reason = StopReason::length;
  std::vector<TokenLogprobs> logprobs;  // one for each token, if asked for
  double prompt_seconds = 0;            // until the first token was chosen
  double total_seconds = 0;
};

// Reads `prompt` (at least one token), then generates. `emit` gets text as soon as whole characters
// of it are certain not to begin a stop string, and is not called with nothing; `should_stop` is
// asked between tokens. Without a tokenizer `emit` gets ids in decimal, separated by spaces.
Generated generate(Session& session, std::span<const std::int32_t> prompt,
                   const text::Tokenizer* tokenizer, const GenerateOptions& options,
                   const std::function<void(std::string_view)>& emit,
                   const std::function<bool()>& should_stop = {});

}  // namespace lamina::decode
