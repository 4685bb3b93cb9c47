// The tensors of a GGUF file under the names that checkpoints at Hugging Face have for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_model.h"

namespace lamina::io {

struct GgufWeight {
  std::string name;  // as at Hugging Face; where that has no such tensor, as in the file
  GgufTensor tensor;
  std::string_view stored_name;  // of the tensor in the file that it is, or is a part of
  const GgufFile* file = nullptr;
};

// Experts, which the file stacks, come one by one; tensors that say what config.json does
// (gguf_config.h) are left out. Borrowed from `model`. Errors (class checkpoint): a stack without
// that dim, two tensors with one name.
std::vector<GgufWeight> gguf_weights(const GgufModel& model);

}  // namespace lamina::io
