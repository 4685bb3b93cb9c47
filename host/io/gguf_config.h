// What a GGUF file says of its model, in the words of config.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_model.h"

namespace lamina::io {

// The value of "general.architecture". Errors (class checkpoint): there is none.
std::string gguf_architecture(const GgufModel& model);

// The text of a config.json with this model_type: keys under their names there, the size of the
// vocabulary and whether the head is tied from the tensors, and true for `marker`, if any. Keys of
// the architecture that have no name there keep their own, and so do those that `keeps_name` says.
// Errors (class checkpoint): no token table; rotary factors that no scaling gives.
std::string gguf_config(const GgufModel& model, const std::string& model_type,
                        const std::string& marker,
                        const std::function<bool(std::string_view key)>& keeps_name = {});

// Refuses keys of the architecture that the family does not read, unless they have no effect.
// `keeps_name`: see gguf_config(); `unread` are names in its config.json, whole or their
// first parts. Errors (class checkpoint): name the key of the file.
void refuse_unknown_keys(const GgufModel& model, const std::string& family,
                         const std::function<bool(std::string_view key)>& keeps_name,
                         const std::vector<std::string>& unread);

// Rows of one head of queries or keys. Errors (class checkpoint): the file does not say.
std::int64_t gguf_head_width(const GgufModel& model);

// Tokens that end a text.
std::vector<std::int64_t> gguf_end_tokens(const GgufModel& model);

}  // namespace lamina::io
