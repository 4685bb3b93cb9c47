// The names of names.h as lists, to refuse a mistyped axis or tag.
#pragma once

#include <span>
#include <string_view>

namespace lamina::registry {

std::span<const std::string_view> axis_names();
std::span<const std::string_view> tag_names();

}  // namespace lamina::registry
