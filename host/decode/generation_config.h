// Reads generation_config.json: the publisher's defaults for generation.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "decode/generate.h"

namespace lamina::decode {

// The file's keys, by their names in generation_config.json. A key that only GGUF files have is
// named as its option: name_in_files().
struct GenerationConfig {
  std::vector<std::string> used, unused;
};

// Applies the file to `options`; absent or null keys change nothing. "do_sample" decides about the
// temperature: false is greedy; true without a temperature is 1. Errors (of the document's class,
// with its line): a value of another type, or outside its limits.
GenerationConfig apply_generation_config(const JsonValue& config, GenerateOptions& options);

}  // namespace lamina::decode
