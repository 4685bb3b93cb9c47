#include "formats/fast_products.h"

#include <algorithm>
#include <string_view>

namespace lamina::formats {
namespace {

constexpr std::string_view kWidened[] = {"FP8", "FP8_32"};

}  // namespace

bool has_fast_products(const BlockFormat& format) {
  return std::ranges::find(kWidened, format.name) == std::end(kWidened);
}

}  // namespace lamina::formats
