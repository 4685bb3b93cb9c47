// Checks the tensors of files against the parameters that they were matched with.
#pragma once

#include <optional>
#include <string>

#include "weights/match/tensor_map.h"

namespace lamina::weights {

// Types and shapes must agree, and the family must use or ignore every tensor; `layers` is the part
// of names before the layers of the language model. Errors: UserError (exit 4) with the file, the
// tensor, and the expected and actual values.
void check_tensors(const decoder::Model& model, const io::WeightFiles& files, std::string layers,
                   const TensorMap& map);

// Returns the value of tie_word_embeddings that the tensors need; nothing if the model's fits: a
// head without a tensor is the token table, and a head that differs from the table is not. Errors:
// the index of the files assigns one of both to a shard that does not contain it.
std::optional<bool> needed_tie(const decoder::Model& model, const io::WeightFiles& files);

}  // namespace lamina::weights
