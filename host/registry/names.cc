#include "registry/names.h"

namespace lamina::registry {
namespace {

constexpr std::string_view kAxes[] = {
#define LAMINA_AXIS(name, text) text,
#include "lamina/axes.def"
};
#define LAMINA_AXIS(name, text) static_assert(std::string_view(#name) == text);
#include "lamina/axes.def"

constexpr std::string_view kTags[] = {
#define LAMINA_TAG(name, text) text,
#include "lamina/tags.def"
};
#define LAMINA_TAG(name, text) static_assert(std::string_view(#name) == text);
#include "lamina/tags.def"

}  // namespace

std::span<const std::string_view> axis_names() { return kAxes; }
std::span<const std::string_view> tag_names() { return kTags; }

}  // namespace lamina::registry
