// Rules of transformers for the objects of rotary positions in a config.json.
#pragma once

#include <vector>

#include "config/raw.h"
#include "config/schema.h"
#include "registry/model_config.h"

namespace lamina::registry {

// Adds a problem for each object without a key that its kind of scaling requires, with a null as
// the kind, or with an attention_factor of 0, which is no value that a model can have.
void check_rope_objects(const config::Raw& raw, config::Problems& problems);

// Adds a problem for each key of a kind of scaling that is set although there is none. The two
// values may be in one file, as in a checkpoint, or in a config.json.
void check_scaling_has_kind(const std::vector<ModelKey>& keys, const config::Table& values,
                            config::Problems& problems);

// For yarn, llama3 and longrope, original_max_position_embeddings at the top has precedence over
// the object's, unless the object has one object for each kind of layers.
void prefer_outer_context(config::Raw& raw);

}  // namespace lamina::registry
