#include "bench/random_weights.h"

#include "bench/repeated_write.h"
#include "core/error.h"
#include "core/float16.h"
#include "core/split_mix.h"
#include "device/workers.h"
#include "runtime/host_access.h"
#include "weights/quantise/quantise.h"

namespace lamina::bench {
namespace {

// Writes numbers first, first + 1, .. of a parameter. REQUIRES: `first` is a multiple of 4.
template <typename T, typename Convert>
void write_uniform(std::uint64_t seed, std::int64_t first, std::span<T> out, Convert convert) {
  constexpr float kHalfWidth = 0.0346f;  // of a uniform number with deviation 0.02
  const std::int64_t count = std::ssize(out);
  for (std::int64_t i = 0; i < count;) {
    std::uint64_t bits = split_mix(seed, static_cast<std::uint64_t>((first + i) / 4));
    for (const std::int64_t end = std::min(i + 4, count); i < end; ++i, bits >>= 16)
      out[static_cast<std::size_t>(i)] =
          convert((static_cast<float>(bits & 0xffff) / 32768.f - 1.f) * kHalfWidth);
  }
}

template <typename T, typename Convert>
void fill_uniform(std::uint64_t seed, std::int64_t count, T* out, const device::Device& device,
                  Convert convert) {
  device.parallel_ranges((count + 3) / 4, 4096, [&](std::int64_t begin, std::int64_t end) {
    write_uniform(seed, 4 * begin, std::span(out + 4 * begin, out + std::min(4 * end, count)),
                  convert);
  });
}

std::uint64_t seed_of(const decoder::Parameter& parameter) {
  return std::hash<std::string>{}(parameter.name);
}

// The same numbers, rounded to the storage of the parameter.
void fill_random_blocks(const decoder::Parameter& parameter, std::span<std::byte> out,
                        const device::Device& device) {
  weights::encode_rows(
      weights::rows_of(parameter), "random weights",
      [seed = seed_of(parameter)](std::int64_t first, std::span<float> to) {
        write_uniform(seed, first, to, [](float v) { return v; });
      },
      device::workers(device), out.data());
}

}  // namespace

void write_random(Queue& queue, const decoder::Parameter& parameter, const TensorRef& tensor,
                  const device::Device& device) {
  const std::uint64_t seed = seed_of(parameter);
  const DType dtype = tensor.type().dtype;
  const bool table = parameter.desc.dtype && !is_floating(*parameter.desc.dtype);
  if (parameter.desc.shape.ndim() >= 2 && !table) {
    LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
    write_repeated(queue, tensor, [&](std::span<std::byte> out) {
      const std::int64_t count = std::ssize(out) / size_bytes(dtype);
      if (dtype == DType::f32)
        fill_uniform(seed, count, reinterpret_cast<float*>(out.data()), device,
                     [](float v) { return v; });
      else
        fill_uniform(seed, count, reinterpret_cast<bfloat16*>(out.data()), device,
                     [](float v) { return to_bfloat16(v); });
    });
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(parameter.num_elements()));
  weights::initialise(parameter, 0, values);
  write_tensor<std::byte>(queue, tensor, [&](std::span<std::byte> out) {
    weights::store(values, dtype, 0, out.data());
  });
}

BenchWeights::BenchWeights(const decoder::Model& model,
                           std::shared_ptr<const io::WeightFiles> files, DType dtype,
                           const Backend& backend, const device::Device& device) {
  if (files) {
    loaded_ =
        weights::Weights::load(model, std::move(files), dtype, backend, device::workers(device));
    return;
  }
  const std::vector<decoder::Parameter>& parameters = model.parameters().all();
  for (const decoder::Parameter& p : parameters)
    owned_.add(static_cast<std::size_t>(p.used_type(dtype).bytes()));
  owned_.allocate(backend);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Type type = parameters[i].used_type(dtype);
    const TensorRef tensor = owned_.tensor(i, type);
    Queue& queue = backend.context().queue();
    if (type.storage)
      write_tensor<std::byte>(queue, tensor, [&](std::span<std::byte> out) {
        fill_random_blocks(parameters[i], out, device);
      });
    else
      write_random(queue, parameters[i], tensor, device);
    tensors_.push_back(tensor);
  }
}

}  // namespace lamina::bench
