// How a GGUF file would have its texts generated: general.sampling.* and
// tokenizer.ggml.suppress_tokens.
#pragma once

#include <string>
#include <vector>

#include "decode/generation_config.h"
#include "io/gguf_file.h"

namespace lamina::decode {

struct GgufSampling {
  GenerationConfig config;
  // Keys that ask for another way to sample than lamina has, with their values: "KEY = 2".
  std::vector<std::string> missing;
};

// Changes `options` to what the file says. Errors (class checkpoint): a value of another type, or
// outside of its limits.
GgufSampling apply_gguf_sampling(const io::GgufFile& file, GenerateOptions& options);

}  // namespace lamina::decode
