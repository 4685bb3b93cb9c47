// The tensors of a GGUF file under the names of Hugging Face checkpoints.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_model.h"

namespace lamina::io {

struct GgufWeight {
  std::string name;  // as at Hugging Face; as in the file if there is no such tensor
  GgufTensor tensor;
  std::string_view stored_name;  // the tensor in the file that contains it
  const GgufFile* file = nullptr;
};

// Returns all tensors, with stacked experts one by one, without tensors that repeat config.json
// (gguf_config.h). Borrowed from `model`. Errors (class checkpoint): a stack without the experts'
// dim, two tensors with one name.
std::vector<GgufWeight> gguf_weights(const GgufModel& model);

}  // namespace lamina::io
