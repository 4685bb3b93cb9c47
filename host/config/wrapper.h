// Reads config.json files of multimodal models, which nest the keys of the language model.
#pragma once

#include <string_view>

#include "config/raw.h"

namespace lamina::config {

// Prefix of the nested language-model config.
inline constexpr std::string_view kTextConfig = "text_config.";
// Prefix for keys outside text_config, which describe other parts of the model.
inline constexpr std::string_view kOutside = "outside_text_config.";

// Lifts an object text_config, or one inside a publisher's wrapper object (publishers/formats.h),
// to the top level of the model. `raw` has keys "model.<path>". Keys outside text_config have no
// effect on the language model and get the prefix kOutside, except for tie_word_embeddings, where
// the outer key takes precedence. model_type and architectures remain in text_config to show that
// it was present. Files without text_config are not changed.
void lift_text_config(Raw& raw);

}  // namespace lamina::config
