// Sampling defaults of GGUF files: general.sampling.* and tokenizer.ggml.suppress_tokens.
#pragma once

#include <string>
#include <vector>

#include "decode/generation_config.h"
#include "io/gguf_file.h"

namespace lamina::decode {

struct GgufSampling {
  GenerationConfig config;
  // Keys of sampling methods that lamina does not have, with their values: "KEY = 2".
  std::vector<std::string> missing;
};

// Sets the options in the file. A penalty without a window is for the last 64 tokens. Errors (class
// checkpoint): a value of another type or outside its limits.
GgufSampling apply_gguf_sampling(const io::GgufFile& file, GenerateOptions& options);

}  // namespace lamina::decode
