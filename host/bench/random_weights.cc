#include "bench/random_weights.h"

#include "core/error.h"
#include "core/float16.h"
#include "core/split_mix.h"
#include "runtime/host_access.h"

namespace lamina::bench {
namespace {

template <typename T, typename Convert>
void fill_uniform(std::uint64_t seed, std::int64_t count, T* out, const device::Device& device,
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

void fill_random(const decoder::Parameter& parameter, std::span<std::byte> out, DType dtype,
                 const device::Device& device) {
  std::int64_t count = parameter.num_elements();
  std::uint64_t seed = std::hash<std::string>{}(parameter.name);
  const bool table = parameter.desc.dtype && !is_floating(*parameter.desc.dtype);
  if (parameter.desc.shape.ndim() >= 2 && !table) {
    LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
    if (dtype == DType::f32)
      fill_uniform(seed, count, reinterpret_cast<float*>(out.data()), device,
                   [](float v) { return v; });
    else
      fill_uniform(seed, count, reinterpret_cast<bfloat16*>(out.data()), device,
                   [](float v) { return to_bfloat16(v); });
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  weights::initialise(parameter, 0, values);
  weights::store(values, dtype, 0, out.data());
}

BenchWeights::BenchWeights(const decoder::Model& model, const std::string& directory, DType dtype,
                           const Backend& backend, const device::Device& device) {
  if (!directory.empty()) {
    loaded_ =
        weights::Weights::load(model, std::make_shared<io::WeightFiles>(directory), dtype, backend);
    return;
  }
  const std::vector<decoder::Parameter>& parameters = model.parameters().all();
  for (const decoder::Parameter& p : parameters)
    owned_.add(static_cast<std::size_t>(p.num_elements() * size_bytes(p.used_dtype(dtype))));
  owned_.allocate(backend);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Type type{parameters[i].used_dtype(dtype), parameters[i].desc.shape, {}};
    const TensorRef tensor = owned_.tensor(i, type);
    write_tensor<std::byte>(backend.context().queue(), tensor, [&](std::span<std::byte> out) {
      fill_random(parameters[i], out, type.dtype, device);
    });
    tensors_.push_back(tensor);
  }
}

}  // namespace lamina::bench
