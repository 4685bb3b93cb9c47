// Sampling defaults of GGUF files: general.sampling.* and tokenizer.ggml.suppress_tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decode/generation_config.h"
#include "io/gguf_file.h"

namespace lamina::decode {

struct GgufSampling {
  GenerationConfig config;
  // Keys of sampling methods that lamina does not have, with their values: "KEY = 2".
  std::vector<std::string> missing;
  // The same for a penalty of the last tokens only; the options get no penalty.
  std::optional<std::string> missing_window;
};

// Sets the options in the file. Errors (class checkpoint): a value of another type or outside its
// limits.
GgufSampling apply_gguf_sampling(const io::GgufFile& file, GenerateOptions& options);

}  // namespace lamina::decode
