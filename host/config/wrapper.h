// config.json files of multimodal models, which keep the language model's keys one level down.
#pragma once

#include <string_view>

#include "config/raw.h"

namespace lamina::config {

// The object that they are in.
inline constexpr std::string_view kTextConfig = "text_config.";

// Where `raw` (keys "model.<path>") has an object text_config, what is in it becomes the model's
// own, instead of what the file says outside of it under the same names. Only model_type and
// architectures stay where they are, by which one sees that it was there. Does nothing to others.
void lift_text_config(Raw& raw);

}  // namespace lamina::config
