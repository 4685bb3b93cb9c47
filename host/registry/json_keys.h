// Preprocesses the keys of a config.json for a family, before they are resolved.
#pragma once

#include <string>
#include <vector>

#include "config/raw.h"
#include "config/schema.h"
#include "registry/model_config.h"

namespace lamina::registry {

// Keeps one place for each key of rotary positions, as Hugging Face's transformers selects it: a
// non-empty object rope_scaling, else rope_parameters; a key at the top applies if that object does
// not have it; original_max_position_embeddings has precedence there. Sub-objects of
// rope_parameters for kinds of layers take precedence, and rope_scaling changes the main one. Adds
// a problem for sub-objects of layers that the family does not have, and for keys that a kind of
// scaling lacks.
void settle_rope_keys(const std::vector<ModelKey>& keys, const std::string& family,
                      config::Raw& raw, config::Problems& problems);

// The host's keys (config/model_keys.h) are in the object "lamina" of a config.json. Elsewhere the
// same name has the meaning of the model's author: a value that changes nothing is dropped, any
// other is a problem. Keys that begin with "engram_" are the host's everywhere.
void settle_host_keys(const std::vector<ModelKey>& keys, const std::string& family,
                      config::Raw& raw, config::Problems& problems);

// Drops the keys that a family ignores in config.json, but declares for run files and the object
// "lamina". Returns those with another value than the default: "x (config.json:7; family ...)".
std::vector<std::string> drop_ignored(const std::vector<ModelKey>& keys, const std::string& family,
                                      config::Raw& raw);

// Adds a problem for keys of models that are no causal decoders, and drops them.
void refuse_other_kinds(const std::vector<ModelKey>& keys, config::Raw& raw,
                        config::Problems& problems);

// Returns the keys of a config.json that are neither read nor known to have no effect, sorted, with
// their places: "alibi (config.json:7)". An object without a known key is one item. REQUIRES: keys
// that the family reads are not in `unread`.
std::vector<std::string> unknown_keys(const std::vector<ModelKey>& keys,
                                      const std::vector<config::RawEntry>& unread);

// Returns those that may change the results (config/published_keys.h), with values and places.
std::vector<std::string> changing_keys(const std::vector<ModelKey>& keys,
                                       const std::vector<config::RawEntry>& unread);

// Returns warnings for a training run: "'attention_dropout' is 0.1 (config.json:7), ...". They are
// about keys that change only training and have no effect here, unless a key of [model] with the
// same effect is set; and about initializer_range of a run file with MaxText's initialisation.
std::vector<std::string> training_differences(const std::vector<ModelKey>& keys,
                                              const config::Resolved& resolved);

// Adds a problem for each member of the object "lamina" of `raw` that no key reads: only lamina
// writes it, with settings that change the model.
void refuse_unknown_own(const std::vector<ModelKey>& keys, const std::string& family,
                        const config::Raw& raw, const std::vector<config::RawEntry>& unread,
                        config::Problems& problems);

// Adds a problem for each key of per_layer_config that the family does not read.
void refuse_layer_settings(const std::string& family, const std::vector<config::RawEntry>& unread,
                           config::Problems& problems);

}  // namespace lamina::registry
