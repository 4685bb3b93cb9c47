// The names of axes.def and tags.def as lists, to detect a mistyped axis or tag.
#pragma once

#include <span>
#include <string_view>

#include "lamina/names.h"

namespace lamina::registry {

std::span<const std::string_view> axis_names();
std::span<const std::string_view> tag_names();

// The input of a layer: always kept (a carry of the scan), regardless of the rematerialisation
// policy.
inline constexpr std::string_view kLayerInputTag = LAMINA_TAG_DECODER_LAYER_INPUT;

}  // namespace lamina::registry
