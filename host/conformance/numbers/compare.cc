#include "conformance/numbers/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "runtime/host_access.h"

namespace lamina::conformance {
namespace {

template <typename Ref>
std::vector<std::vector<float>> copies(const decoder::Model& model, std::span<const Ref> from,
                                       Queue& queue) {
  std::vector<std::vector<float>> out;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto n = static_cast<std::size_t>(model.parameters().all()[i].num_elements());
    const auto copy = [&](auto values) { out.emplace_back(values.begin(), values.end()); };
    if (!from[i])
      out.emplace_back(n);
    else if (from[i].type().dtype == DType::i32)
      read_tensor<std::int32_t>(queue, from[i], copy);
    else
      read_tensor<float>(queue, from[i], copy);
  }
  return out;
}

}  // namespace

std::vector<std::vector<float>> copy_of(const decoder::Model& model,
                                        std::span<const ConstTensorRef> from,
                                        const Backend& backend) {
  return copies(model, from, backend.context().queue());
}
std::vector<std::vector<float>> copy_of(const decoder::Model& model,
                                        std::span<const TensorRef> from, const Backend& backend) {
  return copies(model, from, backend.context().queue());
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
