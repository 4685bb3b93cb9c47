// config.json files of multimodal models, which keep the language model's keys one level down.
#pragma once

#include <string_view>

#include "config/raw.h"

namespace lamina::config {

// Prefix of the nested language-model config.
inline constexpr std::string_view kTextConfig = "text_config.";

// Where `raw` (keys "model.<path>") has an object text_config, or one in an object that publishers
// put around it (publishers/formats.h), what is in it becomes the model's
// own, instead of what the file says outside of it under the same names; of tie_word_embeddings,
// what it says outside counts. Only model_type and architectures stay in text_config, by which one
// sees that it was there. Does nothing to other files.
void lift_text_config(Raw& raw);

}  // namespace lamina::config
