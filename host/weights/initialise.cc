#include "weights/initialise.h"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/fnv1a.h"

namespace lamina::weights {
namespace {

// Draw i of the stream: four uniform numbers in (0, 1), by Philox4x32-10.
std::array<double, 4> uniforms(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
  r123::Philox4x32::ctr_type counter{
      {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
       static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
  r123::Philox4x32::key_type key{
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  auto bits = r123::Philox4x32{}(counter, key);
  std::array<double, 4> out;
  for (std::size_t k = 0; k < 4; ++k) out[k] = (static_cast<double>(bits[k]) + 0.5) * 0x1p-32;
  return out;
}

// Normal draws by Box & Muller 1958, optionally truncated at two deviations.
class NormalStream {
 public:
  NormalStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  double next(bool truncated) {
    for (;;) {
      if (have_ == 0) refill();
      double value = ready_[--have_];
      if (!truncated || std::abs(value) <= 2) return value;
    }
  }

 private:
  void refill() {
    std::array<double, 4> u = uniforms(seed_, stream_, counter_++);
    for (std::size_t pair : {0u, 2u}) {
      double radius = std::sqrt(-2 * std::log(u[pair])), angle = 2 * M_PI * u[pair + 1];
      ready_[pair] = radius * std::cos(angle);
      ready_[pair + 1] = radius * std::sin(angle);
    }
    have_ = 4;
  }

  std::uint64_t seed_, stream_, counter_ = 0;
  std::array<double, 4> ready_{};
  std::size_t have_ = 0;
};

}  // namespace

void initialise(const decoder::Parameter& parameter, std::uint64_t seed, std::span<float> out) {
  using Kind = registry::InitSpec::Kind;
  const registry::InitSpec& init = parameter.desc.init;
  std::uint64_t stream = fnv1a(parameter.name);
  auto fill = [&](double value) { std::ranges::fill(out, static_cast<float>(value)); };
  auto normal = [&](double deviation, bool truncated) {
    NormalStream draws(seed, stream);
    for (float& v : out) v = static_cast<float>(deviation * draws.next(truncated));
  };
  auto uniform = [&](auto map) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(
          map(init.a + (init.b - init.a) * uniforms(seed, stream, i / 4)[i % 4]));
  };
  switch (init.kind) {
    case Kind::zeros:
      return fill(0);
    case Kind::ones:
      return fill(1);
    case Kind::constant:
      return fill(init.a);
    case Kind::normal:
      return normal(init.a, false);
    case Kind::truncated_normal:
      return normal(init.a, true);
    case Kind::fan_in:
      return normal(init.a / std::sqrt(static_cast<double>(parameter.desc.shape[-1])), false);
    case Kind::cycle:
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<float>(std::fmod(static_cast<double>(i), init.a));
      return;
    case Kind::uniform:
      return uniform([](double v) { return v; });
    case Kind::log_uniform:
      return uniform([](double v) { return std::log(v); });
  }
}

}  // namespace lamina::weights
