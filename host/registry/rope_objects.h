// Rules of transformers for the objects of rotary positions in a config.json.
#pragma once

#include <vector>

#include "config/raw.h"
#include "config/schema.h"
#include "registry/model_config.h"

namespace lamina::registry {

// Adds the values that transformers computes for an object: the factor of yarn that is null is the
// ratio of the contexts; longrope with an explicit factor of 1 has an attention_factor of 1,
// because without it 1 means that ratio; an object without a kind is "default" in families that
// otherwise derive another kind. REQUIRES: prefer_outer_context() was called.
void complete_rope_objects(const std::vector<ModelKey>& keys, config::Raw& raw);

// Adds a problem for each object without a key that its kind of scaling requires, with a null as
// the kind, or with an attention_factor of 0, which is no value that a model can have. A kind that
// the family does not support is refused where its value is checked.
void check_rope_objects(const std::vector<ModelKey>& keys, const config::Raw& raw,
                        config::Problems& problems);

// Adds the kind "default" to each object for a kind of layers that has none and that the family
// reads: the family's default is for files without the object. With rope_scaling it adds nothing,
// as rope_scaling may have the kind.
void add_kinds(const std::vector<ModelKey>& keys, config::Raw& raw);

// A key that the user set and that the kind of scaling does not use.
struct IdleSetting {
  std::string key;
  config::Value value;
  ErrorText problem;
};

struct IdleScaling {
  std::vector<std::string> published;  // keys of a config.json, with places and reasons
  std::vector<IdleSetting> typed;      // mistakes, unless the family derives the value
};

// Gives keys that the kind of scaling does not use their defaults, and returns them: published
// files have such keys, and a user who sets one is mistaken, unless a later setting changed the
// kind. A checkpoint has all keys, so that keys with their default or with the value of
// rope_scaling stay.
IdleScaling settle_idle_scaling(const std::vector<ModelKey>& keys, config::Table& values);

// Returns whether the key is the factor 1 of longrope that means the ratio of the contexts. In a
// config.json only a missing factor does.
bool is_ratio_of_contexts(std::string_view key, const config::Table& values);

// Adds a problem for a base of rotary positions that yarn cannot stretch.
void check_scaled_base(const config::Table& values, config::Problems& problems);

// For yarn, llama3 and longrope, original_max_position_embeddings at the top has precedence over
// the object's, unless the object has one object for each kind of layers.
void prefer_outer_context(config::Raw& raw);

}  // namespace lamina::registry
