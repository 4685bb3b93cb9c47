// Keys that config.json files of every family may contain, in addition to those that the family
// declares.
#pragma once

#include <string_view>

#include "config/value.h"

namespace lamina::config {

// The object in config.json with keys that the original model does not have. Other programs ignore
// it.
inline constexpr std::string_view kOwnObject = "lamina.";
// The name of the family, in files with published names that other families read, too.
inline constexpr std::string_view kOwnFamily = "lamina.family";

// Returns whether the key cannot change the output of a decoder: names, file types, token ids,
// settings of text generation, and the rest of the base class of configurations in transformers.
bool has_no_effect(std::string_view key);

// Returns whether a key that has this alias takes the alias's value if a file has both, as
// transformers does for a name of earlier releases.
bool precedes_newer_name(std::string_view alias);

// Returns whether published files have a number in the place of this flag: the original tests it
// for truth, so that 0 is false and any other integer true.
bool is_number_for_flag(std::string_view key);

// Returns whether the key changes what some published models compute, without a tensor that would
// show it, and has another value than models without the feature.
bool may_change_results(std::string_view key, const Value& value);

// A key of models of another kind: decoders have this value.
struct FixedKey {
  std::string_view name;
  bool value;
  std::string_view reason;  // "lamina runs decoders without an encoder"
};
// nullptr for other keys.
const FixedKey* find_fixed_key(std::string_view name);

// A key that changes training only, and its equivalent here.
struct TrainingKey {
  std::string_view name;     // of a number; 0 = off; empty = any other name of dropout
  std::string_view effect;   // "dropout of attention's probabilities"
  std::string_view instead;  // a key of [model] with the same effect; empty = none
};
// Known names, and all that end in "dropout", "dropout_p", "dropout_prob", "dropout_rate" or
// "pdrop". nullptr for other keys.
const TrainingKey* find_training_key(std::string_view name);

}  // namespace lamina::config
