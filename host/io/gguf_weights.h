// The tensors of a GGUF file under the names that checkpoints at Hugging Face have for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_file.h"

namespace lamina::io {

struct GgufWeight {
  std::string name;  // as at Hugging Face; where that has no such tensor, as in the file
  GgufTensor tensor;
};

// Experts, which the file stacks, come one by one; tensors that say what config.json does
// (gguf_config.h) are left out. Borrowed from `file`. Errors (class checkpoint): a stack without
// that dim, two tensors with one name.
std::vector<GgufWeight> gguf_weights(const GgufFile& file);

}  // namespace lamina::io
