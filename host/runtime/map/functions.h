// Functions that rows of functions.def name; compilers of devices take them too.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace lamina {

LAMINA_HOST_DEVICE inline double logistic(double x) {
  const double e = std::exp(-std::abs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
LAMINA_HOST_DEVICE inline double normal_cdf(double x) {
  return 0.5 * std::erfc(-x * std::sqrt(0.5));
}
LAMINA_HOST_DEVICE inline double gelu_angle(double x) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588, kCubic = 0.044715;
  return kSqrt2OverPi * x * (1.0 + kCubic * x * x);
}

}  // namespace lamina
