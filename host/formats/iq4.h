// The numbers of IQ4_NL and IQ4_XS: closer together around 0, where most weights are.
#pragma once

#include <array>
#include <cstdint>

namespace lamina::formats {

inline constexpr std::array<std::int8_t, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace lamina::formats
