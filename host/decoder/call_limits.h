// How much one call of a model may be over.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace lamina::decoder {

class Model;

// Tokens of a call (rows times their length), and slots of a decode state, at most: kernels and
// oneDNN number them with 32 bits.
inline constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

// Throws UserError (exit 2) for more. Every graph of a model checks it.
void check_call(std::int64_t rows, std::int64_t tokens);

// Throws UserError (exit 2) if the model is made for shorter sequences to train on: what it learns
// beyond, decoding would not use. Models whose rotation grows with the sequence take any. `what`
// asks for the length, as in Model::check_length().
void check_training_length(const Model& model, std::int64_t tokens, std::string_view what);

}  // namespace lamina::decoder
