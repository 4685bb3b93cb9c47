// Keys that config.json files of every family may have, whatever the family declares.
#pragma once

#include <string_view>

namespace lamina::config {

// The object of config.json with the keys that the original of the model does not have. Other
// programs ignore it.
inline constexpr std::string_view kOwnObject = "lamina.";

// Returns whether the key cannot change what a decoder computes: names, types of files, ids of
// tokens, settings of text generation. Those of transformers' base class of configurations among
// them.
bool has_no_effect(std::string_view key);

// Returns whether the key, if true, says that the model reads what an encoder made of another text.
bool needs_an_encoder(std::string_view key);

// A key that changes training alone, and what is here in its place.
struct TrainingKey {
  std::string_view name;     // a number; 0 = off
  std::string_view effect;   // "dropout of attention's probabilities"
  std::string_view instead;  // a key of [model] with the same effect; empty = none
};
// nullptr for other keys.
const TrainingKey* find_training_key(std::string_view name);

}  // namespace lamina::config
