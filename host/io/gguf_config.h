// Converts the metadata of a GGUF file to a config.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_model.h"

namespace lamina::io {

// Returns the value of "general.architecture". Errors (class checkpoint): it is missing.
std::string gguf_architecture(const GgufModel& model);

// Returns the text of a config.json with this model_type: keys under their published names, the
// vocabulary size and tied head derived from tensors, and `marker` = true, if not empty. Keys of
// the architecture without a published name keep their own, and so do keys for which `keeps_name`
// is true. Errors (class checkpoint): no token table; rotary factors that match no scaling.
std::string gguf_config(const GgufModel& model, const std::string& model_type,
                        const std::string& marker,
                        const std::function<bool(std::string_view key)>& keeps_name = {});

// Refuses keys of the architecture that the family does not read, unless they have no effect.
// `keeps_name`: see gguf_config(). `unread` are names in the config.json, whole or their first
// parts. Errors (class checkpoint): give the key of the file.
void refuse_unknown_keys(const GgufModel& model, const std::string& family,
                         const std::function<bool(std::string_view key)>& keeps_name,
                         const std::vector<std::string>& unread);

// Returns the rows of one head of queries or keys. Errors (class checkpoint): the file does not
// give them.
std::int64_t gguf_head_width(const GgufModel& model);

// Returns the tokens that end a text.
std::vector<std::int64_t> gguf_end_tokens(const GgufModel& model);

}  // namespace lamina::io
