// Limits on the size of one call of a model.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace lamina::decoder {

class Model;

// Maximum number of tokens of a call (rows times their length), and of slots of a decode state,
// because kernels and oneDNN number them with 32 bits.
inline constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

// Throws UserError (exit 2) if the call has more. Every graph of a model checks it.
void check_call(std::int64_t rows, std::int64_t tokens);

// Throws UserError (exit 2) if the model is made for shorter sequences, because decoding would not
// use the positions trained beyond. Models whose rotation grows with the sequence accept any
// length. `what`: the key that requested the length, as in Model::check_length().
void check_training_length(const Model& model, std::int64_t tokens, std::string_view what);

}  // namespace lamina::decoder
