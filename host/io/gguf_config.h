// What a GGUF file says of its model, in the words of config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/gguf_file.h"

namespace lamina::io {

// The value of "general.architecture". Errors (class checkpoint): there is none.
std::string gguf_architecture(const GgufFile& file);

// The text of a config.json with this model_type: keys under their names there, the size of the
// vocabulary and whether the head is tied from the tensors, and true for `marker`. Keys of the
// architecture that have no name there keep their own. Errors (class checkpoint): no token table; a
// part of a model that is split over files; rotary factors that no scaling gives.
std::string gguf_config(const GgufFile& file, const std::string& model_type,
                        const std::string& marker);

// Tokens that end a text.
std::vector<std::int64_t> gguf_end_tokens(const GgufFile& file);

}  // namespace lamina::io
