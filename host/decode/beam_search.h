// Beam search: looks for the text with the likeliest tokens together, with a few parallel attempts.
#pragma once

#include "decode/generate.h"

namespace lamina::decode {

// Called by generate(), with a session of `options.num_beams` sequences. Nothing is sampled:
// temperature and filters have no effect, penalties act on log probabilities. Returns the result of
// Hugging Face's generate() for num_beams: among the attempts that ended, the one with the best sum
// of log probabilities divided by its number of tokens (with the end token) to the power of
// `length_penalty`. `emit` gets the text at the end; after an interruption the best text so far.
Generated beam_search(Session& session, std::span<const std::int32_t> prompt,
                      const text::Tokenizer* tokenizer, const GenerateOptions& options,
                      const std::function<void(std::string_view)>& emit,
                      const std::function<bool()>& should_stop);

}  // namespace lamina::decode
