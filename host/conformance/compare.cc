#include "conformance/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

namespace lamina::conformance {
namespace {

template <typename Pointer>
std::vector<std::vector<float>> copies(const decoder::Model& model, std::span<Pointer const> from) {
  std::vector<std::vector<float>> out;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    const auto n = static_cast<std::size_t>(p.num_elements());
    if (!from[i])
      out.emplace_back(n);
    else if (std::is_same_v<Pointer, void*> && p.used_dtype(DType::f32) == DType::i32)
      out.emplace_back(static_cast<const std::int32_t*>(static_cast<const void*>(from[i])),
                       static_cast<const std::int32_t*>(static_cast<const void*>(from[i])) + n);
    else
      out.emplace_back(static_cast<const float*>(from[i]), static_cast<const float*>(from[i]) + n);
  }
  return out;
}

}  // namespace

std::vector<std::vector<float>> copy_of(const decoder::Model& model, std::span<void* const> from) {
  return copies(model, from);
}
std::vector<std::vector<float>> copy_of(const decoder::Model& model, std::span<float* const> from) {
  return copies(model, from);
}

double difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return worst;
}

double relative_difference(std::span<const float> a, std::span<const float> b) {
  return difference(a, b) / std::max(1e-30, largest_magnitude(b));
}

double largest_magnitude(std::span<const float> values) {
  double out = 0;
  for (float v : values) out = std::max(out, std::abs(static_cast<double>(v)));
  return out;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

void disturb(std::span<float> weights, double by, unsigned seed) {
  std::minstd_rand random(seed);
  for (float& w : weights) w *= static_cast<float>(random() % 2 == 0 ? 1 + by : 1 - by);
}

}  // namespace lamina::conformance
