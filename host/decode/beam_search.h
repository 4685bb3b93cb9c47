// Beam search: the text whose tokens are likeliest together, as far as a few parallel attempts find
// it.
#pragma once

#include "decode/generate.h"

namespace lamina::decode {

// As generate(), with a session of `options.num_beams` sequences. Nothing is drawn: temperature and
// filters do nothing, penalties act on log probabilities. What Hugging Face's generate() returns
// for num_beams: of the attempts that ended, that with the best sum of log probabilities over its
// number of tokens to the power of `length_penalty`, the end token counted. `emit` gets the text at
// the end; after an interruption that is the best one so far.
Generated beam_search(Session& session, std::span<const std::int32_t> prompt,
                      const text::Tokenizer* tokenizer, const GenerateOptions& options,
                      const std::function<void(std::string_view)>& emit,
                      const std::function<bool()>& should_stop);

}  // namespace lamina::decode
