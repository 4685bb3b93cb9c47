#include "bench/random_weights.h"

#include "core/error.h"
#include "core/float16.h"
#include "core/split_mix.h"

namespace lamina::bench {
namespace {

template <typename T, typename Convert>
void fill_uniform(std::uint64_t seed, std::int64_t count, T* out, const Device& device,
                  Convert convert) {
  constexpr float kHalfWidth = 0.0346f;  // of a uniform number with deviation 0.02
  device.parallel_ranges((count + 3) / 4, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      std::uint64_t bits = split_mix(seed, static_cast<std::uint64_t>(group));
      for (std::int64_t i = 4 * group; i < std::min(4 * group + 4, count); ++i, bits >>= 16)
        out[i] = convert((static_cast<float>(bits & 0xffff) / 32768.f - 1.f) * kHalfWidth);
    }
  });
}

}  // namespace

void fill_random(const decoder::Parameter& parameter, DType dtype, void* out,
                 const Device& device) {
  std::int64_t count = parameter.num_elements();
  std::uint64_t seed = std::hash<std::string>{}(parameter.name);
  const bool table = parameter.desc.dtype && !is_floating(*parameter.desc.dtype);
  if (parameter.desc.shape.ndim() >= 2 && !table) {
    LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
    if (dtype == DType::f32)
      fill_uniform(seed, count, static_cast<float*>(out), device, [](float v) { return v; });
    else
      fill_uniform(seed, count, static_cast<bfloat16*>(out), device,
                   [](float v) { return to_bfloat16(v); });
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  weights::initialise(parameter, 0, values);
  weights::store(values, dtype, 0, static_cast<std::byte*>(out));
}

BenchWeights::BenchWeights(const decoder::Model& model, const std::string& directory, DType dtype,
                           const Backend& backend, const Device& device) {
  if (!directory.empty()) {
    loaded_ =
        weights::Weights::load(model, std::make_shared<io::WeightFiles>(directory), dtype, backend);
    return;
  }
  for (const decoder::Parameter& p : model.parameters().all())
    owned_.add(static_cast<std::size_t>(p.num_elements() * size_bytes(p.used_dtype(dtype))));
  owned_.allocate(backend);
  for (const decoder::Parameter& p : model.parameters().all()) {
    pointers_.push_back(owned_[pointers_.size()]);
    fill_random(p, p.used_dtype(dtype), pointers_.back(), device);
  }
}

}  // namespace lamina::bench
