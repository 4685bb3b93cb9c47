// config.json files of multimodal models, which keep the language model's keys one level down.
#pragma once

#include <string_view>

#include "config/raw.h"

namespace lamina::config {

// Prefix of the nested language-model config.
inline constexpr std::string_view kTextConfig = "text_config.";
// Prefix of what a file with a text_config says outside of it about other parts of the model.
inline constexpr std::string_view kOutside = "outside_text_config.";

// Where `raw` (keys "model.<path>") has an object text_config, or one in an object that publishers
// put around it (publishers/formats.h), what is in it becomes the model's own. Keys outside of it
// have no effect on the language model and get the prefix kOutside, but for tie_word_embeddings,
// where the outer one counts. Only model_type and architectures stay in text_config, by which one
// sees that it was there. Does nothing to other files.
void lift_text_config(Raw& raw);

}  // namespace lamina::config
