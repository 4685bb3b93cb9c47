// Converts the metadata of a GGUF file to a config.json.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_model.h"

namespace lamina::io {

// Returns the value of "general.architecture". Errors (class checkpoint): it is missing.
std::string gguf_architecture(const GgufModel& model);

struct GgufConfig {
  std::string json;  // a config.json
  // The part of the file from which a key of it was derived: "llama.block_count" for
  // "num_hidden_layers", "tensor 'output.weight'" for "tie_word_embeddings". Members of
  // "rope_scaling" have the object's place, unless they have their own.
  std::map<std::string, std::string, std::less<>> places;

  // Returns the place of a key; "metadata" if it is unknown.
  std::string place_of(std::string_view key) const;
};

// Returns a config.json with this model_type: keys under their published names, the vocabulary
// size, tied head and biases derived from tensors, and `marker` = true, if not empty. Keys of the
// architecture without a published name keep their own, and so do keys for which `keeps_name` is
// true, which the family knows.
// Errors (class checkpoint): no token table; a required key is missing; rotary factors that match
// no scaling.
GgufConfig gguf_config(const GgufModel& model, const std::string& model_type,
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

}  // namespace lamina::io
