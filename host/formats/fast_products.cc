#include "formats/fast_products.h"

#include <algorithm>
#include <string_view>

namespace lamina::formats {
namespace {

constexpr std::string_view kWidened[] = {"FP8", "FP8_32"};

// Integers are bytes. IQ4_NL and IQ4_XS have codes of 4 bits for 16 of them.
constexpr std::string_view kBytes[] = {"Q8_0",        "INT8_32",      "INT8_64", "INT8_128",
                                       "INT8_64_F16", "INT8_128_F16", "IQ4_NL",  "IQ4_XS"};

}  // namespace

bool has_fast_products(const BlockFormat& format) {
  return std::ranges::find(kWidened, format.name) == std::end(kWidened);
}

bool has_small_integers(const BlockFormat& format) {
  return has_fast_products(format) && std::ranges::find(kBytes, format.name) == std::end(kBytes);
}

}  // namespace lamina::formats
