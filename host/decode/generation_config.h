// How a model's publisher would have its texts generated: generation_config.json.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "decode/generate.h"

namespace lamina::decode {

// Names of the file's keys.
struct GenerationConfig {
  std::vector<std::string> used, unused;
};

// Changes `options` to what the file says; keys that are absent or null change nothing. "do_sample"
// decides about the temperature: false is greedy; true with no temperature is 1. Errors (of the
// document's class, with its line): a value of another type, or outside of its limits.
GenerationConfig apply_generation_config(const JsonValue& config, GenerateOptions& options);

}  // namespace lamina::decode
